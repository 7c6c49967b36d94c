"""Sessions: `nox -l` lists them, `nox -s NAME -- ARGUMENTS` hands arguments on."""

import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["tests", "lint"]
nox.options.reuse_existing_virtualenvs = True

PYPROJECT = nox.project.load_toml("pyproject.toml")
SUPPORTED = ["3.11", "3.12", "3.13"]


@nox.session
def speedup(session: nox.Session) -> None:
    """Measure on this machine and print the speedup table."""
    session.install("-e", ".")
    session.run("stepbench", "speedup", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on the running Python, with coverage."""
    _test(session)


@nox.session(python=SUPPORTED)
def matrix(session: nox.Session) -> None:
    """Run the tests on every supported Python."""
    _test(session)


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """Run the tests with the lowest versions that the dependencies allow."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    pinned = [requirement.replace(">=", "==") for requirement in project["dependencies"]]
    _test(session, *pinned)


@nox.session
def gate(session: nox.Session) -> None:
    """Check a change against a base revision: `nox -s gate -- --base origin/main`."""
    session.install("-e", ".")
    session.run("stepbench", "gate", *session.posargs)


@nox.session(python=SUPPORTED)
def budgets(session: nox.Session) -> None:
    """Count the work of all arms and write it as the budget, for every supported Python."""
    session.install("-e", ".")
    session.run("stepbench", "count", "--update", "--quiet", silent=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and types."""
    session.install("-e", ".", *nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


def _test(session: nox.Session, *pinned: str) -> None:
    groups = nox.project.dependency_groups(PYPROJECT, "test")
    session.install("-e", ".", *groups, *pinned)
    # Worker processes and the command write coverage files of their own.
    session.env["COVERAGE_FILE"] = str(Path(session.create_tmp()) / "coverage")
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "combine", "--quiet")
    # A part of the tests says nothing about what all of them cover.
    floor = [] if session.posargs else ["--fail-under=95"]
    session.run("coverage", "report", *floor)
