"""Measuring: arms, the isolated protocol, the machine, statistics and the results file."""
