import importlib

import pytest

from harness.arms import ARMS, check_arms, create_arm, describe_arm
from scenarios.errors import InputError


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
