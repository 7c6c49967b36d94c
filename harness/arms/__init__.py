"""Arms: where they come from, how they are loaded, and what they read and need."""
