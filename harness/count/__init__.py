"""``stepbench count``: exact work, and the budgets that it is held to."""
