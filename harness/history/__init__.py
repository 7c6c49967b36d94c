"""``stepbench history``: results over time, and where they changed."""
