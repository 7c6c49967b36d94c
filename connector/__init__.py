"""The code under test: what upstream's KV-connector scheduler output does, one file an arm."""
