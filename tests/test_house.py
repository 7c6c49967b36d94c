"""The packages of this project import each other as CONTRIBUTING.md draws it, and in no circle."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Each may import those behind it.
LAYERS = (
    *("stepbench", "reports", "harness", "subjects"),
    *("scenarios", "stubs", "connector", "stepbench_core"),
)
# Of these the rooms are told apart.
HOUSES = ("harness", "reports")


def imports(file: Path) -> Iterator[str]:
    """The modules that a file imports, and what it takes from them, by their dotted names."""
    package = file.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def arrows(house: str) -> set[tuple[str, str]]:
    """Which room of a house imports which other; a module that lies in none is one by itself."""
    found = set()
    for file in (ROOT / house).rglob("*.py"):
        room = file.relative_to(ROOT / house).with_suffix("").parts[0]
        for name in imports(file):
            top, _, rest = name.partition(".")
            if top == house and rest and rest.partition(".")[0] != room:
                found.add((room, rest.partition(".")[0]))
    return found


def drawn(house: str) -> set[tuple[str, str]]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = text.partition(f"%% {house}/\n")[2].partition("```")[0]
    return {
        (room, other)
        for line in re.findall(r"^\s+(.+ --> .+)$", block, re.MULTILINE)
        for room in line.partition(" --> ")[0].split(" & ")
        for other in line.partition(" --> ")[2].split(" & ")
    }


@pytest.mark.parametrize("house", HOUSES)
def test_rooms_import_each_other_as_it_is_drawn_and_in_no_circle(house: str):
    found = arrows(house)

    assert found == drawn(house)
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for room, other in found:
        sorter.add(room, other)
    sorter.prepare()  # Raises an error where there is a circle.


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_go_down_only(layer: str):
    above = set(LAYERS[: LAYERS.index(layer)]) | {"tests", "benchmarks"}
    files = [file for file in (ROOT / layer).rglob("*.py") if "native" not in file.parts]

    assert files
    for file in files:
        assert not {name.partition(".")[0] for name in imports(file)} & above, file


def test_what_is_drawn_is_read():
    assert ("compare", "stats") in drawn("harness")
    assert ("document", "kinds") in drawn("reports")


WORKERS = sorted(
    str(file.relative_to(ROOT).with_suffix("")).replace("/", ".")
    for file in (ROOT / "harness").rglob("*worker.py")
)


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_needs_the_standard_library_alone_and_pyperf_where_that_measures(worker: str):
    """So that it can run under an engine's own interpreter, and holds nothing that it times."""
    program = (
        "import sys, importlib; old = set(sys.modules); importlib.import_module(sys.argv[1]);"
        "print(*{name.partition('.')[0] for name, module in sys.modules.items()"
        " if name not in old and 'site-packages' in (getattr(module, '__file__', None) or '')})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, worker], capture_output=True, text=True, check=True
    )

    # The engine's own, and what installs a project that is being edited.
    others = {name for name in ran.stdout.split() if not name.startswith(("stepbench", "__edit"))}
    assert others <= ({"pyperf", "psutil"} if worker == "harness.speedup.worker" else set())
