"""``stepbench calibrate``: what single calls of the native side cost."""
