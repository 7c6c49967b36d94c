"""Arms loaded from source text, as modules apart from each other."""

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.data import RequestData, SchedulerOutput
from harness.arms.loading import ArmOfSource, load_apart
from harness.arms.registry import ARMS
from harness.arms.sources import ArmSource, find_source
from stepbench_core.errors import InputError

ARM = "class KvCacheConnectorSchedulerOutputManager:\n    made = {!r}\n"


@pytest.fixture
def alias() -> Iterator[str]:
    """A name for a module, which is free again afterwards."""
    name = "_stepbench_test_apart"
    yield name
    sys.modules.pop(name, None)


def source(text: str, spec: str = "file:x.py") -> ArmSource:
    return ArmSource(spec, "x", "x.py", text)


def test_modules_apart_share_no_state_but_the_types(alias: str):
    text = find_source("incremental").text
    first, second = load_apart(source(text), alias), load_apart(source(text), alias + "2")
    sys.modules.pop(alias + "2")

    name = "KvCacheConnectorSchedulerOutputManager"
    assert getattr(first, name) is not getattr(second, name)
    assert vars(first) is not vars(second)
    assert first.SchedulerOutput is second.SchedulerOutput is SchedulerOutput
    assert first.RequestData is second.RequestData is RequestData
    assert sys.modules[alias] is first
    assert first.KvCacheConnectorSchedulerOutputManager.__module__ == alias


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_can_be_loaded_apart(name: str, alias: str):
    module = load_apart(find_source(name), alias)

    arm = module.KvCacheConnectorSchedulerOutputManager(
        enable_attention_dp=True, attention_dp_rank=3
    )
    assert arm.attention_dp_rank == 3


def test_a_loaded_module_is_compiled_as_it_stands(alias: str):
    # Not with the __future__ of the module that compiles it.
    module = load_apart(source(ARM.format("x") + "    size: int = 1\n"), alias)

    assert module.KvCacheConnectorSchedulerOutputManager.__annotations__ == {"size": int}


def test_a_dataclass_of_a_file_finds_its_own_module(alias: str):
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n\n@dataclass\n"
    module = load_apart(source(text + ARM.format("x") + "    size: int = 1\n"), alias)

    assert module.KvCacheConnectorSchedulerOutputManager(size=3).size == 3


def test_an_error_in_a_loaded_module_names_its_file_and_line(alias: str):
    text = "\n" + ARM.format("x") + "    def f(self):\n        raise ValueError\n"
    module = load_apart(ArmSource("file:a.py", "a", "somewhere/a.py", text), alias)
    try:
        module.KvCacheConnectorSchedulerOutputManager().f()
    except ValueError as error:
        frame = error.__traceback__.tb_next.tb_frame  # type: ignore[union-attr]
        assert (frame.f_code.co_filename, frame.f_lineno) == ("somewhere/a.py", 5)
    else:
        pytest.fail("the arm raised nothing")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("class (:\n", "SyntaxError: "),
        ("raise RuntimeError('not today')\n", "RuntimeError: not today"),
        ("from .nowhere import x\n", "ModuleNotFoundError: No module named 'connector.nowhere'"),
        ("from .data import nothing\n", "ImportError: cannot import name 'nothing'"),
        ("\0", "source code string cannot contain null bytes"),
        # An arm must not end the command, with a code that says all is well.
        ("raise SystemExit(0)\n", "SystemExit: 0"),
        ("import sys\nsys.exit('no GPU here')\n", "SystemExit: no GPU here"),
    ],
)
def test_a_source_that_cannot_be_imported(alias: str, text: str, why: str):
    with pytest.raises(InputError) as caught:
        load_apart(source(text), alias)
    told = str(caught.value)
    assert told.startswith("file:x.py: cannot be imported: ")
    assert why in told
    assert alias not in sys.modules


@pytest.mark.parametrize("text", ["", "x = 1\n"])
def test_a_source_without_the_class(alias: str, text: str):
    with pytest.raises(InputError) as caught:
        load_apart(source(text, "git:HEAD:incremental"), alias)
    assert str(caught.value) == (
        "git:HEAD:incremental: has no class KvCacheConnectorSchedulerOutputManager"
    )


def test_a_factory_makes_fresh_instances_and_can_be_sent():
    make = ArmOfSource(find_source("page-range"))

    first, second = make(attention_dp=False), pickle.loads(pickle.dumps(make))(True)  # noqa: S301

    assert first is not make(attention_dp=False)
    assert type(first) is type(second)
    assert (first.attention_dp_rank, second.attention_dp_rank) == (None, 3)  # type: ignore[attr-defined]


def test_factories_of_two_texts_under_one_name_are_apart(tmp_path: Path):
    init = (
        "    def __init__(self, **options): pass\n"
        "    build_scheduler_output = record_new_matched_tokens = reset_request = __init__\n"
    )
    made = []
    for text in ("old", "new"):
        (tmp_path / "arm.py").write_text(ARM.format(text) + init)
        made.append(ArmOfSource(find_source(f"file:{tmp_path / 'arm.py'}"))(False))

    assert [type(arm).made for arm in made] == ["old", "new"]  # type: ignore[attr-defined]


def test_an_arm_without_a_method_is_named():
    body = "    def __init__(self, **options): pass\n    reset_request = __init__\n"
    text = "class KvCacheConnectorSchedulerOutputManager:\n" + body

    with pytest.raises(InputError) as caught:
        ArmOfSource(source(text, "file:half.py"))(False)
    assert str(caught.value) == (
        "file:half.py: has no method build_scheduler_output, record_new_matched_tokens"
    )


@pytest.mark.parametrize(
    "body",
    [
        "    pass\n",
        "    def __init__(self, **options): raise RuntimeError('no device')\n",
        "    def __init__(self, enable_attention_dp): pass\n",
    ],
)
def test_an_arm_that_cannot_be_made_is_bad_input(body: str):
    text = "class KvCacheConnectorSchedulerOutputManager:\n" + body

    with pytest.raises(InputError, match=r"^file:made\.py: "):
        ArmOfSource(source(text, "file:made.py"))(False)
