"""What holds for all tests."""

from hypothesis import settings

# Examples are checked for what they give, never for how long they take.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
