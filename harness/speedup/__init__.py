"""``stepbench speedup``: arms in processes of their own that take turns at rounds."""
