"""A user's own function as a subject, with versions of the user's own packages as arms."""
