"""What is measured: frozen scenarios, and workloads that bring them to life on the stand-ins."""
