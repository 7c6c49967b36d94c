"""From samples to the speedup table."""
