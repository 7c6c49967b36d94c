"""Words around numbers."""


def counted(number: int, noun: str) -> str:
    """Return ``number`` with ``noun``, in the plural unless it is one: ``3 rounds``."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"
