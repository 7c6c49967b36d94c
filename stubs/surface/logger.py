"""The engine's whole logger: what the measured path logs goes to this project's log."""

from __future__ import annotations

import logging
from collections.abc import Callable

from connector import log

_LEVELS = {
    **dict.fromkeys(("internal_error", "critical", "fatal"), logging.CRITICAL),
    **dict.fromkeys(("error", "exception"), logging.ERROR),
    **dict.fromkeys(("warning", "warn"), logging.WARNING),
    "info": logging.INFO,
    **dict.fromkeys(("debug", "verbose", "trace"), logging.DEBUG),
}

# What was logged that is logged once.
_seen: set[str] = set()


class Logger:
    """Takes all that the engine's logger does, and raises nothing.

    Attributes:
        level: the name of the least level that is shown; here it decides nothing.
        rank: the number of the process among those of the engine.
    """

    ERROR, WARNING, INFO, VERBOSE, DEBUG = "[E]", "[W]", "[I]", "[V]", "[D]"
    INTERNAL_ERROR = "[F]"

    def __init__(self, *_arguments: object) -> None:
        self.level = "warning"
        self.rank: int | None = None

    def set_level(self, level: str) -> None:
        """Note the least level that is shown."""
        self.level = level

    def set_rank(self, rank: int | None) -> None:
        """Note the number of the process."""
        self.rank = rank

    def log(self, severity: object, *message: object, **_named: object) -> None:
        """Log at the level that a severity such as ``[W]`` names."""
        levels = {"[E]": "error", "[W]": "warning", "[I]": "info", "[F]": "critical"}
        _log(levels.get(str(severity), "debug"), message)

    def log_once(self, severity: object, *message: object, key: object = None) -> None:
        """Log the first time that a key, or else the message, is seen in this process."""
        if _is_new(message, key):
            self.log(severity, *message)

    def error(self, *message: object, **_named: object) -> None:
        """Log an error."""
        _log("error", message)

    def warning(self, *message: object, **_named: object) -> None:
        """Log a warning."""
        _log("warning", message)

    def warning_once(self, *message: object, key: object = None, **_named: object) -> None:
        """Log a warning the first time that a key, or else it, is seen in this process."""
        text = _joined(message)
        log.warning_once(text, key=text if key is None else str(key))

    def info(self, *message: object, **_named: object) -> None:
        """Log what is no warning."""
        _log("info", message)

    def debug(self, *message: object, **_named: object) -> None:
        """Log what is for whoever looks for a mistake."""
        _log("debug", message)

    def __getattr__(self, name: str) -> Callable[..., object]:
        """Return one of the calls that are asked for less often.

        What a level is named like logs, ``..._once`` included; a question is answered with False,
        so that nothing is put together to be logged; all else does nothing.
        """
        level = name.removesuffix("_once")
        if name.startswith("_"):
            raise AttributeError(f"the logger has no attribute {name!r}")
        if level not in _LEVELS:
            return _not_at_all

        def say(*message: object, key: object = None, **_named: object) -> None:
            if level == name or _is_new(message, key):
                _log(level, message)

        return say


def _log(level: str, message: tuple[object, ...]) -> None:
    if log.logger.isEnabledFor(_LEVELS[level]):
        log.logger.log(_LEVELS[level], "%s", _joined(message))


def _is_new(message: tuple[object, ...], key: object) -> bool:
    once = _joined(message) if key is None else repr(key)
    if once in _seen:
        return False
    _seen.add(once)
    return True


def _joined(message: tuple[object, ...]) -> str:
    return " ".join(map(_worded, message))


def _worded(part: object) -> str:
    try:
        return str(part)
    except Exception:  # Whatever it is, that it is logged is no reason to fail.
        return object.__repr__(part)


def _not_at_all(*_arguments: object, **_named: object) -> bool:
    return False


logger = Logger()
