"""What each command but ``speedup`` prints of its results."""
