"""``stepbench verify``: whether arms give the same outputs."""
