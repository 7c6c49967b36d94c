"""``stepbench gate``: what a change has to pass."""
