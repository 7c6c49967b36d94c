"""What the signals do that ask a command to stop: as Ctrl-C, once, wherever it strikes."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

# On which a command ends early.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Before an interruption that was lost is raised again.
_SECONDS_UNTIL_AGAIN = 0.01

_raised: list[int] = []


def heed_signals() -> None:
    """Have each of these signals raise KeyboardInterrupt, so that all is cleaned up.

    Whoever starts a command may have it ignore some, as ``nohup`` and ``&`` do: so it does. But for
    SIGTERM, which nobody ignores for it on purpose; nor is any left held back.
    """
    _raised.clear()
    for number in SIGNALS:
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    # Where it is ignored, nobody learns how a child has ended.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _raise_lost_ones_again()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*SIGNALS, signal.SIGCHLD, signal.SIGALRM})


def heed_none() -> None:
    """Have all of them do nothing: what is left to do is not to be cut short."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in SIGNALS:
        signal.signal(number, _nothing)


def ignore_signals() -> None:
    """Have none of them end this process any more: the end of Python takes its handlers away."""
    heed_none()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def nothing_but_interrupted() -> Iterator[None]:
    """Raise KeyboardInterrupt again where it comes out as an error.

    C code that is interrupted may make one of it, as NumPy does when it is imported.
    """
    try:
        yield
    except Exception:
        if _raised:
            raise KeyboardInterrupt from None
        raise


def _interrupt(number: int, _frame: FrameType | None) -> None:
    # Once is enough: a second signal, of whatever kind, must not cut short the cleaning up. Python
    # complains of one that has come already if it is ignored in the end.
    heed_none()
    _raised.append(number)
    raise KeyboardInterrupt


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def _raise_lost_ones_again() -> None:
    """Raise interruptions again that come where Python drops exceptions, as in a finalizer."""
    drop = sys.unraisablehook

    def hook(dropped: "sys.UnraisableHookArgs") -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            drop(dropped)
            return
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, _SECONDS_UNTIL_AGAIN)

    sys.unraisablehook = hook
