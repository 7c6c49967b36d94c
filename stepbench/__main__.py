"""``python -m stepbench``, and what the installed script calls: no traceback, whatever happens."""

# The part of ``signal`` in C, since a file of that name may lie in the way.
import _signal  # type: ignore[import-not-found]
import sys


def main() -> None:
    """Run the command line and exit with its code: 2 where it cannot even be imported."""
    # Until that heeds signals, Ctrl-C ends this process as it does others: without a traceback.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    if sys.version_info < (3, 11):  # noqa: UP036 - a checkout can be run by any Python.
        sys.exit(_refused("stepbench needs Python 3.11 or newer"))
    try:
        from .cli import main as run_command
    except Exception as error:
        from .failures import explain

        sys.exit(_refused(explain(error)))
    run_command()


def _refused(words: str) -> int:
    import contextlib

    with contextlib.suppress(AttributeError, OSError):  # Nobody reads it.
        sys.stderr.write(f"stepbench: error: {words}\n")
    return 2


if __name__ == "__main__":
    from .module_path import leave_out_working_folder

    leave_out_working_folder()
    main()
