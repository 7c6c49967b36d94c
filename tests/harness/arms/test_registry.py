import importlib
import pickle

import pytest

from harness.arms.registry import (
    ARMS,
    RegisteredArm,
    check_arms,
    create_arm,
    describe_arm,
    split_arms,
)
from stepbench_core.errors import InputError


def test_the_reference_arms_are_registered():
    assert ARMS["full-copy"] == "connector.full_copy"
    assert ARMS["incremental"] == "connector.incremental"


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_describes_itself_in_one_line(name: str):
    description = describe_arm(name)

    assert len(description) > 10
    assert "\n" not in description
    first_line = (importlib.import_module(ARMS[name]).__doc__ or "").splitlines()[0]
    assert first_line == f"Arm ``{name}``: {description}"


@pytest.mark.parametrize("name", ARMS)
def test_create_arm_returns_a_fresh_instance_with_all_methods(name: str):
    first, second = create_arm(name), create_arm(name)

    assert first is not second
    assert type(first).__module__ == ARMS[name]
    for method in ("build_scheduler_output", "record_new_matched_tokens", "reset_request"):
        assert callable(getattr(first, method))


def test_check_arms_accepts_different_known_arms():
    check_arms(["full-copy"])
    check_arms(["incremental", "full-copy"])
    check_arms(tuple(ARMS))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "no arm is named"),
        (["full-copy", "full-copy"], "arm 'full-copy' is named twice"),
        (["full-copy", "incremental", "full-copy"], "arm 'full-copy' is named twice"),
        (["incremetal"], "unknown arm 'incremetal': did you mean 'incremental'?"),
        (["full-copy", "fullcopy"], "unknown arm 'fullcopy': did you mean 'full-copy'?"),
    ],
)
def test_check_arms_names_what_is_wrong(names: list[str], message: str):
    with pytest.raises(InputError) as caught:
        check_arms(names)
    assert str(caught.value) == message


def test_an_arm_like_none_is_answered_with_all_of_them():
    with pytest.raises(InputError) as caught:
        check_arms(["zzz", "zzz"])
    assert str(caught.value).startswith(f"unknown arm 'zzz': known: {', '.join(ARMS)}")


def test_create_arm_refuses_an_unknown_arm():
    with pytest.raises(InputError, match=r"^unknown arm 'incremetal': did you mean 'incremental'"):
        create_arm("incremetal")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("full-copy", ("full-copy",)),
        ("batched,full-copy", ("batched", "full-copy")),
        (" incremental ,\tfull-copy ", ("incremental", "full-copy")),
        ("floor", ("floor",)),
        # The ladder from the top down, and the floor below it.
        (
            "all",
            (
                "full-copy",
                "incremental",
                "page-growth",
                "page-range",
                "batched",
                "native-output",
                "floor",
            ),
        ),
    ],
)
def test_a_list_of_arms_is_split_in_its_order(text: str, names: tuple[str, ...]):
    assert split_arms(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "arms '': an entry is empty"),
        (" ", "arms ' ': an entry is empty"),
        ("full-copy,", "arms 'full-copy,': an entry is empty"),
        ("full-copy, ,floor", "arms 'full-copy, ,floor': an entry is empty"),
        ("full-copy,page-rnage", "unknown arm 'page-rnage': did you mean 'page-range'?"),
        ("Full-copy", "unknown arm 'Full-copy': did you mean 'full-copy'?"),
        ("flor", "unknown arm 'flor': did you mean 'floor'?"),
        ("floor,full-copy, floor", "arm 'floor' is named twice"),
    ],
)
def test_a_list_that_names_no_arms_is_refused(text: str, message: str):
    with pytest.raises(InputError) as caught:
        split_arms(text)
    assert str(caught.value) == message


def test_the_floor_is_an_arm_only_where_it_may_be():
    check_arms(["full-copy", "floor"])
    check_arms(["full-copy", "batched"], floor=False)

    with pytest.raises(InputError) as caught:
        check_arms(["full-copy", "floor"], floor=False)

    assert str(caught.value) == f"unknown arm 'floor': known: {', '.join(ARMS)}"
    assert type(create_arm("floor")).__module__ == "harness.arms.floor"


@pytest.mark.parametrize("name", ARMS)
def test_a_registered_arm_makes_fresh_instances_and_can_be_sent(name: str):
    arm = pickle.loads(pickle.dumps(RegisteredArm(name)))  # noqa: S301

    assert arm == RegisteredArm(name)
    first, second = arm(True), arm(False)
    assert type(first) is type(second) is type(create_arm(name))
    assert first is not second
    # All arms must name the same rank, and none without attention data parallelism.
    assert (first.attention_dp_rank, second.attention_dp_rank) == (3, None)
    assert (first.enable_attention_dp, second.enable_attention_dp) == (True, False)


def test_a_registered_arm_that_is_unknown_is_refused_when_it_is_made():
    with pytest.raises(InputError, match=r"^unknown arm 'bached': did you mean 'batched'\?$"):
        RegisteredArm("bached")(False)
