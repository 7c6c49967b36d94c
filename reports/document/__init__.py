"""The report on several files: its sections, as text, page and comment."""
