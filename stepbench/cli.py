"""The entry point. A command's module is imported when the command runs, so ``--help`` is quick."""

# ruff: noqa: E402 - first of all, what would be imported instead of what is meant.
from .module_path import clear_the_way

_CLEARED = clear_the_way()

import contextlib
import importlib
import io
import os
import resource
import sys
from pathlib import Path

import click

from stepbench_core.errors import (
    ArmError,
    InputError,
    LostWorkerError,
    NoBaselineError,
    NotImportableError,
    WorkerError,
    unknown,
)

from . import __version__
from .failures import explain
from .interruption import heed_none, heed_signals, ignore_signals, nothing_but_interrupted
from .messages import abandon_stdout, say

# Name -> (module, help line). The help lines stand here so that --help imports no command.
_COMMANDS = {
    "speedup": ("stepbench.speedup", "Measure the arms and print the speedup table."),
    "verify": ("stepbench.verify", "Verify that arms give the same outputs on random runs."),
    "count": ("stepbench.count", "Count exactly what each arm does in an iteration."),
    "compare": ("stepbench.compare", "Compare two near-equal arms and give a verdict."),
    "gate": ("stepbench.gate", "Check a change for CI: same outputs, no more work, no slower."),
    "overlap": ("stepbench.overlap", "Show what of the host path the forward hides, or not."),
    "doctor": ("stepbench.doctor", "Say what this machine is like for measuring, and how noisy."),
    "calibrate": ("stepbench.calibrate", "Show what the stand-ins' calls cost."),
    "report": (
        "stepbench.report",
        "Print what stored results say: tables, plots, a comment, a page.",
    ),
    "history": ("stepbench.history", "Keep results over time, and find when times changed."),
    "init": ("stepbench.init", "Set up a gate for functions of your own in your repository."),
    "list": ("stepbench.list_", "List the arms, the providers and the named scenarios."),
}

FOUND, USAGE, INCONCLUSIVE, NOTHING_TO_COMPARE, INTERRUPTED = 1, 2, 3, 4, 130


class _LazyGroup(click.Group):
    """A group that imports the module of a command only to run it or to show its help."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            raise unknown("command", cmd_name, _COMMANDS)
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    epilog="\b\nExit codes: 0 done; 1 a finding; 2 usage or bad input, or it cannot be run here;\n"
    "3 inconclusive; 4 nothing to compare with; 130 interrupted, what was finished is kept.",
)
@click.version_option(__version__, message="stepbench %(version)s")
def cli() -> None:
    """Benchmark the host path that an LLM inference engine runs at every decode iteration.

    \b
    Examples:
      stepbench speedup                   the table of the reference cells, about a minute
      stepbench speedup --quick           the same with fewer samples, for a first look
      stepbench report results/*.json     the table again, from what was stored
      stepbench COMMAND --help            the options of a command, with examples
    """


def main() -> None:
    """Run the command line and exit with the code that DESIGN documents for every command."""
    if _CLEARED:
        say(_CLEARED)
    # For the processes that Python's own modules start, which would look there first.
    os.environ["PYTHONSAFEPATH"] = "1"
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        # NumPy's threads, of which we need none, do not fit; it would interrupt us.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = run(sys.argv[1:])
        heed_none()
    except KeyboardInterrupt:  # While the end was told.
        code = INTERRUPTED
    ignore_signals()
    # Python would still kill itself for an interruption that came through ``exec``, as of a named
    # tuple's or a dataclass's code; it forgets that with the next one.
    exec("")  # noqa: S102
    # What is flushed at the end of Python would end with 120, and words of its own.
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
    except (OSError, ValueError) as error:
        abandon_stdout()
        code = code or _fail(f"output: {getattr(error, 'strerror', None) or error}")
    sys.exit(code)


def run(arguments: list[str]) -> int:  # noqa: PLR0912 - one branch an outcome
    """Run the command line ``arguments`` and return the exit code.

    Every error that a user can cause ends in one line on stderr.
    """
    # Asked to stop, clean up as for Ctrl-C: kill the worker, keep what was finished.
    heed_signals()
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Not every terminal has all signs, nor is the name of every file a text.
            stream.reconfigure(errors="backslashreplace")
    code: object = None
    try:
        # Not cli.main(), which turns a closed pipe into exit code 1 by itself.
        with (
            nothing_but_interrupted(),
            cli.make_context("stepbench", arguments or ["--help"]) as context,
        ):
            code = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        return _fail(error.format_message())
    except NotImportableError as error:
        say(error.trace)
        return _fail(str(error))
    except InputError as error:
        return _fail(str(error))
    except NoBaselineError as error:
        return _fail(str(error), NOTHING_TO_COMPARE)
    except ArmError as error:
        say(error.trace)
        return _fail(str(error), FOUND)
    except WorkerError as error:
        return _fail(str(error), code_of(error))
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        abandon_stdout()
        return code if isinstance(code, int) else 0  # The reader has seen enough.
    except SystemExit as error:  # Not ours: of the code that was measured, or of what it called.
        return _fail(f"something called sys.exit({error.code!r}): no result", FOUND)
    except Exception as error:  # Of the machine, of a package, or a bug: never a finding.
        if isinstance(error, OSError):
            abandon_stdout()
        return _fail(explain(error))
    return code if isinstance(code, int) else 0


def code_of(error: WorkerError) -> int:
    """Return the exit code for a worker that gave no result: whether that says anything."""
    return USAGE if isinstance(error, LostWorkerError) else FOUND


def _open_closed_streams() -> None:
    """Send to nowhere what was closed by whoever started us.

    The descriptors as well: a file of results that gets the number 1 would be written into.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # The lowest number that is free: this one.
                os.set_inheritable(number, True)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115


def _fail(message: str, code: int = USAGE) -> int:
    line = " ".join(message.split())
    say(f"error: {line}")
    return code
