import pytest

from harness.arms.variables import is_secret, split_list, split_variables
from stepbench_core.errors import InputError


@pytest.mark.parametrize(
    ("spec", "variables", "rest"),
    [
        ("incremental", {}, "incremental"),
        ("file:a b=1.py", {}, "file:a b=1.py"),
        ("A=1 b", {"A": "1"}, "b"),
        ("A= b", {"A": ""}, "b"),
        ("  A=1   _B2='x y'  file:it's a.py", {"A": "1", "_B2": "x y"}, "file:it's a.py"),
        ('A="a \\" b"c\\ d e', {"A": 'a " bc d'}, "e"),
        ("A=x=1,2 git:HEAD:b", {"A": "x=1,2"}, "git:HEAD:b"),
    ],
)
def test_variables_stand_in_front(spec: str, variables: dict[str, str], rest: str):
    assert split_variables(spec) == (variables, rest)


@pytest.mark.parametrize(
    "spec", ["A=1", "A=1 ", "A='x b", 'A="x b', "A=1 A=2 b", "PYTHONPATH=. b", "LD_PRELOAD= b"]
)
def test_what_cannot_be(spec: str):
    with pytest.raises(InputError):
        split_variables(spec)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a,b", ["a", "b"]),
        (" a , b ", ["a", "b"]),
        ("A='1,2' a,b", ["A='1,2' a", "b"]),
        ("A=1,2 a", ["A=1", "2 a"]),
        ('a,A=x"," B=\\, b,c', ["a", 'A=x"," B=\\, b', "c"]),
        ("file:it's.py,b", ["file:it's.py", "b"]),
        ("a,", ["a", ""]),
        ("", [""]),
    ],
)
def test_a_list_is_split_at_commas_outside_of_quotes(text: str, items: list[str]):
    assert split_list(text) == items


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *((name, True) for name in ("HF_TOKEN", "API_KEY", "apikey", "DB_PASSWORD", "SECRET_1")),
        *((name, False) for name in ("MAX_TOKENS", "KEYBOARD", "TLLM_FAST", "PATH")),
    ],
)
def test_names_that_look_like_secrets(name: str, is_one: bool):
    assert is_secret(name) is is_one
