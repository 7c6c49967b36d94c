"""The one logger call of the measured path."""

import logging

logger = logging.getLogger("stepbench.connector")
logger.addHandler(logging.NullHandler())  # Where to show it is for whoever runs the path to say.
_seen: set[str] = set()


def warning_once(message: str, *, key: str) -> None:
    """Log ``message`` as a warning the first time that ``key`` is seen in this process."""
    if key not in _seen:
        _seen.add(key)
        logger.warning(message)
