import pytest

from reports.words import counted


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
