"""A user's own function: the option that names it, its arms and cells, and what was verified."""

from __future__ import annotations

import contextlib
import fnmatch
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from harness.arms.packages import PackageArm, Project, find_project, packages_of, read_arms
from harness.verify.worlds import inspect
from stepbench_core.errors import InputError, unknown
from subjects.base import Cell

F = TypeVar("F", bound=Callable[..., object])

# Options that say something of the connector alone.
_OF_CONNECTOR = (
    *("scenario", "requests", "tokens", "trace", "max_batch", "max_num_tokens", "manager"),
    *("tokens_per_block", "layer_groups", "page_backend", "boundaries", "draft_tokens", "overlap"),
    "provider",
)


def subject_option(function: F) -> F:
    """Add ``--subject``, a text; None for TensorRT-LLM's connector."""
    return click.option(
        "--subject",
        metavar="FILE[::FUNCTION]",
        help="A function of your own (docs/subjects.md).  [default: TensorRT-LLM's connector]",
    )(function)


@dataclass(frozen=True)
class OwnFunction:
    """A user's own function with the arms that a command names.

    Attributes:
        project: where it is.
        name: the function.
        arms: the arms, by how the user named them.
        cells: the cells that the command is about.
        description: what a worker is told of it.
    """

    project: Project
    name: str
    arms: Mapping[str, PackageArm]
    cells: tuple[Cell, ...]
    description: Mapping[str, Any]

    @property
    def is_native(self) -> bool:
        """Whether an arm has compiled modules: two cannot share a process."""
        return any(arm.is_native for arm in self.arms.values())

    @property
    def origins(self) -> dict[str, str]:
        """Where each arm is from, with the beginning of its digest."""
        return {spec: f"{arm.origin}, sha256 {arm.digest[:12]}" for spec, arm in self.arms.items()}

    @property
    def words(self) -> list[str]:
        """What is measured, for a provenance."""
        packages = ", ".join(self.description["packages"])
        return [
            f"subject {self.project.file.name}::{self.name} with the packages {packages}",
            *(f"{spec} is {words}" for spec, words in self.origins.items()),
        ]


@contextlib.contextmanager
def own_function(
    subject: str, specs: Sequence[str], options: Mapping[str, Any]
) -> Iterator[OwnFunction]:
    """Read the arms of a command into a folder that is there as long as the block.

    Args:
        subject: the file, and the function in it or not.
        specs: the arms.
        options: those of ``selection_options``.

    Raises:
        InputError: there is no such file, function, arm or cell, or an option is the connector's.
        ArmError: the first arm cannot be imported.
    """
    _refuse_options_of_connector()
    with package_arms(subject, specs) as (project, arms, description):
        functions = inspect(description, arms[specs[0]])
        if len(functions) > 1:
            raise InputError(
                f"{subject} declares {', '.join(functions)}: name one, as in "
                f"--subject {subject}::{next(iter(functions))}"
            )
        ((name, cells),) = functions.items()
        chosen = choose_cells(cells, options["cells"])
        yield OwnFunction(project, name, arms, chosen, {**description, "function": name})


@contextlib.contextmanager
def package_arms(
    subject: str, specs: Sequence[str]
) -> Iterator[tuple[Project, dict[str, PackageArm], dict[str, Any]]]:
    """Yield the project of a subject, the arms in a temporary folder, and what a worker is told.

    Raises InputError where there is no such file or arm.
    """
    project = find_project(subject)
    with tempfile.TemporaryDirectory(prefix="stepbench-") as folder:
        arms = read_arms(project, specs, Path(folder).resolve())
        yield (
            project,
            arms,
            {
                "file": str(project.file),
                "function": project.function,
                "packages": packages_of(arms.values()),
            },
        )


def choose_cells(cells: Sequence[Cell], text: str | None) -> tuple[Cell, ...]:
    """Return the cells that a list of names, or of patterns such as ``64x*``, names; else all.

    Raises:
        InputError: there is no such cell.
    """
    if text is None:
        return tuple(cells)
    found: dict[str, Cell] = {}
    for pattern in (entry.strip() for entry in text.split(",")):
        own = {cell.name: cell for cell in cells if fnmatch.fnmatchcase(cell.name, pattern)}
        if not own:
            raise unknown("cell", pattern, [cell.name for cell in cells])
        found |= own
    return tuple(found.values())


def _refuse_options_of_connector() -> None:
    """Raise click.UsageError if an option was given that says nothing of a user's function."""
    context = click.get_current_context()
    for name in _OF_CONNECTOR:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise click.UsageError(
                f"--{option} is about TensorRT-LLM's connector: it does not go with --subject"
            )
