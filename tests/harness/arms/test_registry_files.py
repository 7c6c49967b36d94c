"""Arms that come from a file, and the file itself."""

import concurrent.futures
import multiprocessing
import os
import pickle
from pathlib import Path

import pytest

from harness.arms.registry import ArmFactory, ArmFromFile, load_file
from stepbench_core.errors import InputError

# Each time it is loaded it adds a line with its name and process to a file beside it.
SOURCE = """
import os
import pathlib

with (pathlib.Path(__file__).parent / "loads").open("a") as loads:
    loads.write(f"{pathlib.Path(__file__).name} {os.getpid()}\\n")


class Arm:
    def __init__(self, name, attention_dp):
        self.asked = (name, attention_dp)


def create(name, attention_dp):
    return Arm(name, attention_dp)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "arms.py"
    path.write_text(SOURCE)
    return path


def loads(path: Path) -> list[str]:
    return (path.parent / "loads").read_text().splitlines()


def ask(make: ArmFactory) -> tuple[str, bool]:
    """Make an arm, in whatever process this is called, and return what it was asked for."""
    return make(True).asked


def test_a_file_is_loaded_once_a_process(path: Path):
    module = load_file(path)

    assert load_file(path) is load_file(Path(str(path))) is module
    assert loads(path) == [f"arms.py {os.getpid()}"]
    assert module.create("name", False).asked == ("name", False)


def test_files_of_one_name_in_two_folders_are_two_modules(path: Path, tmp_path: Path):
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    other.write_text("WHO = 'other'")

    assert load_file(other).WHO == "other"
    assert not hasattr(load_file(path), "WHO")


def test_a_loaded_file_hides_no_module_of_its_name(tmp_path: Path):
    impostor = tmp_path / "pickle.py"
    impostor.write_text("WHO = 'impostor'")

    assert load_file(impostor).WHO == "impostor"
    import pickle as real

    assert real is pickle
    assert not hasattr(real, "WHO")


@pytest.mark.parametrize("name", ["arms.txt", "arms", "arms.py.orig"])
def test_a_path_that_is_no_python_file_is_refused_each_time(tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_text(SOURCE)

    for _ in range(2):
        with pytest.raises(InputError) as caught:
            load_file(path)
        assert str(caught.value) == f"{path}: not a Python file"
    assert not (tmp_path / "loads").exists()


def test_an_arm_from_a_file_is_made_by_the_function_create(path: Path):
    arm = ArmFromFile(path, "slow")

    assert not (path.parent / "loads").exists()  # Only an instance takes the file.
    first, second = arm(True), arm(False)
    assert (first.asked, second.asked) == (("slow", True), ("slow", False))
    assert first is not second
    assert type(first) is type(second) is load_file(path).Arm
    assert loads(path) == [f"arms.py {os.getpid()}"]


def test_an_arm_from_a_file_can_be_pickled(path: Path):
    arm = ArmFromFile(path, "slow")
    arm(False)

    copy = pickle.loads(pickle.dumps(arm))  # noqa: S301

    assert copy == arm
    assert copy != ArmFromFile(path, "fast")
    assert copy(True).asked == ("slow", True)


def test_another_process_loads_the_file_as_well(path: Path):
    arm = ArmFromFile(path, "slow")
    arm(False)
    context = multiprocessing.get_context("spawn")

    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        assert [pool.submit(ask, arm).result() for _ in range(2)] == [("slow", True)] * 2
        other = pool.submit(os.getpid).result()

    assert loads(path) == [f"arms.py {os.getpid()}", f"arms.py {other}"]
