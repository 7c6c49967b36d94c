"""A module without an arm."""

NAME = "nothing"
