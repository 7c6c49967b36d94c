"""Subjects: calls that an engine makes once a step, with what each needs around it."""
