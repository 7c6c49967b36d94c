"""The command line: one file a command, no logic."""

__version__ = "0.1.0"
