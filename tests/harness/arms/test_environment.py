import pytest

from harness.arms.environment import (
    ENVIRONMENT,
    Environment,
    environment_of,
    from_metadata,
    to_json,
    with_environment,
)
from harness.arms.own_os import Reads


def test_of_the_whole_environment_the_source_says_what_it_is_after():
    whole = {"FOO": "1", "TLLM_A": "2", "TLLM_KEY": "3", "HOME": "/root", "BYTES": "b"}
    text = "x = ['FOO', 'TLLM_', b'BYTES', 'home', 7]"

    found = environment_of(Reads({"FOO": "1", "GONE": None}, is_whole=True), text, whole, ["FOO"])

    assert found.values == {"FOO": "1", "GONE": None, "TLLM_A": "2", "BYTES": "b"}
    assert (found.hidden.keys(), found.others.keys()) == ({"TLLM_KEY"}, {"HOME"})
    assert found.words() == (
        "reads FOO=1, GONE (unset), TLLM_A=2, BYTES=b, TLLM_KEY (set, its value is not kept), "
        "the whole environment (1 other variables)"
    )


def test_long_values_that_differ_at_their_end_differ():
    one, other = (Environment({"A": "x" * 99 + end}) for end in "ab")

    assert one.words() == other.words()
    assert one.states() != other.states()


def test_it_comes_back_from_metadata():
    kept = {"file:a.py": Environment({"A": None, "B": "1"}, {"T": "0"}, {"C": "2"}, ("B",))}

    assert from_metadata({ENVIRONMENT: to_json(kept)}) == kept


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"a": 1}', '{"a": {"values": {}}}'])
def test_what_is_no_environment_is_none(text: str):
    assert from_metadata({ENVIRONMENT: text}) == {}


def test_a_command_is_repeated_with_what_was_read_and_is_nobodys_own():
    read = [Environment({"A": "x y", "B": None}), Environment({"C": "1"}, own=("C",))]

    assert with_environment("stepbench list", read) == "env -u B A='x y' stepbench list"
    assert with_environment("stepbench list", read[1:]) == "stepbench list"
