"""Stands for ``tensorrt_llm.logger``: what the measured path logs goes to this project's log."""

from connector import log

from ..placeholders import missing_names

__all__ = ["logger"]
__getattr__ = missing_names(__name__)


class _Logger:
    """The two calls that the measured path makes, and those beside them that a fork may."""

    def error(self, *message: object) -> None:
        """Log an error."""
        log.logger.error(_joined(message))

    def warning(self, *message: object) -> None:
        """Log a warning."""
        log.logger.warning(_joined(message))

    def warning_once(self, *message: object, key: str) -> None:
        """Log a warning the first time that ``key`` is seen in this process."""
        log.warning_once(_joined(message), key=key)

    def info(self, *message: object) -> None:
        """Log what is no warning."""
        log.logger.info(_joined(message))

    def debug(self, *message: object) -> None:
        """Log what is for whoever looks for a mistake."""
        log.logger.debug(_joined(message))


def _joined(message: tuple[object, ...]) -> str:
    return " ".join(map(str, message))


logger = _Logger()
