import pytest

from reports.words import code, counted, sentences


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "round", "1 round"),
        (3, "round", "3 rounds"),
        (0, "cell", "0 cells"),
        (1, "process", "1 process"),
        (4, "process", "4 processes"),
        (1500, "request", "1,500 requests"),
    ],
)
def test_a_number_and_its_noun_agree(number: int, noun: str, text: str):
    assert counted(number, noun) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("page-range", "`page-range`"),
        ("trtllm:~/a b@HEAD", "`trtllm:~/a b@HEAD`"),
        ("a`b", "`` a`b ``"),
        ("`a``b`", "``` `a``b` ```"),
    ],
)
def test_code_ends_where_the_text_does(text: str, shown: str):
    assert code(text) == shown


def test_each_arm_has_its_sentence():
    origins = {"trtllm:x": "commit 1, sha256 2", "file:`.py": "a file by itself, sha256 3"}

    assert sentences({}) == []
    assert sentences(origins) == [
        "`trtllm:x`: commit 1, sha256 2.",
        "`` file:`.py ``: a file by itself, sha256 3.",
    ]
