"""``stepbench compare``: the duet, its verdict, and instructions instead of time."""
