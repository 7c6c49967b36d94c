"""``stepbench overlap``: host time beside the forward, hidden or exposed."""
