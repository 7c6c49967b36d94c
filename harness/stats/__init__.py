"""Statistics that several commands use."""
