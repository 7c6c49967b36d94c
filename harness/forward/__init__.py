"""The forward that host time is held against: modelled, or run on a GPU."""
