import pickle

from stepbench_core.errors import ArmError, InputError, WorkerError, unknown


def test_an_unknown_name_suggests_the_nearest_known_one():
    error = unknown("arm", "incrementel", ["full-copy", "incremental"])

    assert isinstance(error, InputError)
    assert str(error) == "unknown arm 'incrementel': did you mean 'incremental'?"


def test_an_unknown_name_like_no_other_lists_all_of_them():
    error = unknown("arm", "xyz", iter(["full-copy", "incremental"]))

    assert str(error) == "unknown arm 'xyz': known: full-copy, incremental"


def test_what_an_arm_raised_is_told_by_another_process_as_by_this_one():
    error = ArmError("cell a: KeyError: 7", "Traceback: ...")

    for one in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert isinstance(one, WorkerError)
        assert (str(one), one.trace) == ("cell a: KeyError: 7", "Traceback: ...")
