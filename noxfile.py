"""Sessions: `nox -l` lists them, `nox -s NAME -- ARGUMENTS` hands arguments on."""

import hashlib
import os
import shutil
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["tests", "lint"]
nox.options.reuse_existing_virtualenvs = True

PYPROJECT = nox.project.load_toml("pyproject.toml")
SUPPORTED = ["3.11", "3.12", "3.13"]
NATIVE = Path("stubs", "native")
# What holds for every provider, and for the native one alone.
CONTRACT = ["tests/stubs", "tests/scenarios/test_providers_agree.py"]
# As many processes as there are cores; what shares a browser stays together.
_AT_ONCE = ["-q", "-n", "auto", "--dist", "loadgroup", "--benchmark-disable"]
# The sanitizers keep freed memory: instead of its resident memory, its leaks are looked at.
MILLION_CALLS = "tests/stubs/test_native.py::test_a_million_calls_leak_nothing"


@nox.session
def speedup(session: nox.Session) -> None:
    """Measure on this machine and print the speedup table."""
    session.install("-e", ".")
    _add_native(session)
    session.run("stepbench", "speedup", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Time the same cells by pytest-benchmark, into results/bench.json."""
    session.install("-e", ".", *nox.project.dependency_groups(PYPROJECT, "bench"))
    _add_native(session)
    Path("results").mkdir(exist_ok=True)
    options = ["--benchmark-only", "--benchmark-disable-gc", "--benchmark-json=results/bench.json"]
    session.run("pytest", "tests/benchmarks/test_cells.py", *options, *session.posargs)


@nox.session
def power_study(session: nox.Session) -> None:
    """Count what the duet and the usual tools find, and their false alarms (6 hours)."""
    session.install("-e", ".", *nox.project.dependency_groups(PYPROJECT, "study"))
    _add_native(session)
    session.run("python", "benchmarks/power_study.py", *session.posargs)


@nox.session(venv_params=["--system-site-packages"])
def gpu(session: nox.Session) -> None:
    """Hold the model of overlap against the GPU here, with the machine's PyTorch (8 minutes)."""
    session.install("-e", ".[gpu]")
    session.run("python", "benchmarks/gpu_overlap.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on the running Python."""
    _test(session)


@nox.session
def coverage(session: nox.Session) -> None:
    """Run all tests, also those that take long, and count what they cover."""
    _prepare(session)
    # Worker processes and the command write coverage files of their own.
    session.env["COVERAGE_FILE"] = str(Path(session.create_tmp()) / "coverage")
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", "--thorough", *(session.posargs or _AT_ONCE))
    session.run("coverage", "combine", "--quiet")
    # A part of the tests says nothing about what all of them cover.
    floor = [] if session.posargs else ["--fail-under=95"]
    session.run("coverage", "report", *floor)


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
def signals(session: nox.Session) -> None:
    """Send signals to commands at random moments and look what is left of them (10 minutes)."""
    session.install("-e", ".", *nox.project.dependency_groups(PYPROJECT, "test"))
    session.run("python", "-m", "tests.stepbench.signal_storm", *session.posargs)


@nox.session
def gate(session: nox.Session) -> None:
    """Check a change against a base revision: `nox -s gate -- --base origin/main`."""
    session.install("-e", ".")
    session.run("stepbench", "gate", *session.posargs)


@nox.session
def native(session: nox.Session) -> None:
    """Build the native stand-ins and run on them the tests that hold for every provider."""
    session.install("-e", ".", *nox.project.dependency_groups(PYPROJECT, "test"))
    session.install(f"./{NATIVE}")
    session.run("python", "-c", "import stepbench_native")
    session.run("pytest", *(session.posargs or CONTRACT))


@nox.session
def sanitize(session: nox.Session) -> None:
    """Run the same tests under the address and undefined-behaviour sanitizers."""
    if shutil.which("g++") is None:
        session.error("g++ not found: the session needs its sanitizers")
    session.install("-e", ".", *nox.project.dependency_groups(PYPROJECT, "test"))
    settings = ["cmake.define.STEPBENCH_SANITIZE=ON", "cmake.build-type=RelWithDebInfo"]
    options = [f"--config-settings={setting}" for setting in settings]
    session.install(f"./{NATIVE}", *options, env={"CXX": "g++"})
    # Python itself is built without them, so that they must be there before it starts.
    libraries = [
        session.run("g++", f"-print-file-name={name}", silent=True, external=True).strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so.6")
    ]
    sanitized = {
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    # Python and NumPy leave objects behind when they end: that is no finding.
    env = sanitized | {"ASAN_OPTIONS": "detect_leaks=0"}
    arguments = session.posargs or [*CONTRACT, f"--deselect={MILLION_CALLS}"]
    session.run("pytest", *arguments, env=env)
    env = sanitized | {"ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=16"}
    session.run("python", "-m", "tests.stubs.million_calls", "--without-numpy", env=env)


@nox.session(python=SUPPORTED)
def budgets(session: nox.Session) -> None:
    """Count the work of all arms and write it as the budget, for every supported Python."""
    session.install("-e", ".")
    session.run("stepbench", "count", "--update", "--quiet", silent=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and types."""
    session.install("-e", ".[mutants]", *nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


def _test(session: nox.Session, *pinned: str) -> None:
    _prepare(session, *pinned)
    session.run("pytest", *(session.posargs or _AT_ONCE))


def _prepare(session: nox.Session, *pinned: str) -> None:
    groups = nox.project.dependency_groups(PYPROJECT, "test")
    session.install("-e", ".[history,mutants]", *groups, *pinned)
    _add_native(session)


def _add_native(session: nox.Session) -> None:
    """Install the native stand-ins if they can be built here; everything works without them.

    The wheel is kept: it is built once for each version of Python and of its sources.
    """
    if not any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))):
        session.warn("no C++ compiler: going on without the provider nanobind")
        return
    tag = session.run_install(
        "python", "-c", "import sys; print(sys.implementation.cache_tag)", silent=True, log=False
    )
    sources = sorted(path for path in NATIVE.rglob("*") if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    folder = session.cache_dir / f"stepbench-native-{tag.strip()}-{digest[:16]}"
    if not list(folder.glob("*.whl")):
        command = ["pip", "wheel", "--no-deps", "--wheel-dir", str(folder), f"./{NATIVE}"]
        session.run_install("python", "-m", *command, silent=True, success_codes=[0, 1])
    wheels = [str(path) for path in folder.glob("*.whl")]
    if not wheels:
        session.warn(f"pip wheel ./{NATIVE} fails: going on without the provider nanobind")
        command = ["pip", "uninstall", "--yes", "stepbench-native"]  # Built from other sources.
        session.run_install("python", "-m", *command, silent=True)
        return
    session.install("--force-reinstall", "--no-deps", *wheels)
