"""``harness.speedup.file``: what is checked before anything is measured."""

import os
from pathlib import Path

import pyperf
import pytest

from harness.speedup.file import MACHINE_FIELDS, check_same_machine, check_writable, load
from harness.system.fingerprint import identity
from stepbench_core.errors import InputError, NoBaselineError

from ..helpers import write_results


def test_check_writable_creates_the_folder_and_nothing_else(tmp_path: Path):
    file = tmp_path / "a/b/results.json"
    check_writable(file, force=False)
    assert (tmp_path / "a/b").is_dir()
    assert list((tmp_path / "a/b").iterdir()) == []


def test_check_writable_spares_an_existing_file(tmp_path: Path):
    file = tmp_path / "results.json"
    file.write_text("precious")
    with pytest.raises(InputError) as caught:
        check_writable(file, force=False)
    assert str(caught.value) == f"{file}: exists; --force overwrites it"
    check_writable(file, force=True)
    assert file.read_text() == "precious"


@pytest.mark.parametrize("force", [False, True])
def test_check_writable_refuses_a_folder(tmp_path: Path, force: bool):
    with pytest.raises(InputError) as caught:
        check_writable(tmp_path, force=force)
    assert str(caught.value) == f"{tmp_path}: a folder, not a file"


def test_check_writable_refuses_what_is_no_file_at_all(tmp_path: Path):
    # Replaced by a regular file, a device such as /dev/null would be lost to the whole machine.
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"/pipe: "):
        check_writable(tmp_path / "pipe", force=True)


def test_check_writable_needs_a_folder_that_can_be_written(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError) as caught:
        check_writable(tmp_path / "file/results.json", force=False)
    # Not by permissions, which do not bind root.
    assert str(caught.value).startswith(f"{tmp_path / 'file'}: cannot be written: ")
    with pytest.raises(InputError, match=r"^/proc: cannot be written: "):
        check_writable(Path("/proc/results.json"), force=False)


def test_check_same_machine_accepts_this_one(tmp_path: Path):
    file = tmp_path / "results.json"
    here = pyperf.Run([1.0], metadata={"name": "here"}).get_metadata()
    machine = {field: here[field] for field in MACHINE_FIELDS if field in here}
    write_results(file, **machine, **identity())
    check_same_machine(load(file))


@pytest.mark.parametrize("field", MACHINE_FIELDS)
def test_check_same_machine_names_the_field_that_differs(tmp_path: Path, field: str):
    file = tmp_path / "results.json"
    here = pyperf.Run([1.0], metadata={"name": "here"}).get_metadata()
    machine = {name: here[name] for name in MACHINE_FIELDS if name in here}
    write_results(file, **(machine | {field: "another"}))

    with pytest.raises(NoBaselineError) as caught:
        check_same_machine(load(file))
    assert str(caught.value) == (
        f"{file}: measured on another machine or Python: {field} was another, "
        f"and is {here.get(field, 'unknown')} here"
    )


def test_check_same_machine_holds_the_fingerprints_against_each_other(tmp_path: Path):
    file = tmp_path / "results.json"
    here = pyperf.Run([1.0], metadata={"name": "here"}).get_metadata()
    machine = {field: here[field] for field in MACHINE_FIELDS if field in here}

    write_results(file, **machine, **(identity() | {"stepbench_machine": "0123456789ab"}))
    with pytest.raises(NoBaselineError) as caught:
        check_same_machine(load(file))
    assert str(caught.value) == (
        f"{file}: measured on another machine than this one: fingerprint 0123456789ab against "
        f"{identity()['stepbench_machine']}"
    )

    # A file of before there were fingerprints: whose it is cannot be known.
    write_results(file, **machine)
    with pytest.raises(NoBaselineError) as caught:
        check_same_machine(load(file))
    assert str(caught.value) == (
        f"{file}: whether it was measured on the same machine as this one cannot be known: {file} "
        "has no machine fingerprint"
    )
