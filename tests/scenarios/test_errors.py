from scenarios.errors import InputError, unknown


def test_an_unknown_name_suggests_the_nearest_known_one():
    error = unknown("arm", "incrementel", ["full-copy", "incremental"])

    assert isinstance(error, InputError)
    assert str(error) == "unknown arm 'incrementel': did you mean 'incremental'?"


def test_an_unknown_name_like_no_other_lists_all_of_them():
    error = unknown("arm", "xyz", iter(["full-copy", "incremental"]))

    assert str(error) == "unknown arm 'xyz': known: full-copy, incremental"
