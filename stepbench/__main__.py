"""``python -m stepbench``, and what the installed script calls."""

import signal


def main() -> None:
    """Run the command line and exit with its code."""
    # Until that heeds signals, Ctrl-C ends this process as it does others: without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
