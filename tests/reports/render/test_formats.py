import io
import json

import pytest

from reports.render.formats import Format
from reports.speedup.formats import write

from ..conftest import make_summary


@pytest.mark.parametrize(
    ("style", "beginning"),
    [
        ("markdown", "| Requests |"),
        ("csv", "file,hostname,cpu,"),
        ("json", "{"),
    ],
)
def test_each_format_is_written_whole(style: Format, beginning: str):
    file = io.StringIO()

    write([make_summary()], style, file)

    assert file.getvalue().startswith(beginning)
    assert file.getvalue().endswith("\n")


def test_json_is_one_document_for_all_files():
    file = io.StringIO()

    write([make_summary(file="a.json"), make_summary(file="b.json")], "json", file)

    assert len(json.loads(file.getvalue())["results"]) == 2


def test_the_terminal_format_is_a_ruled_table():
    file = io.StringIO()

    write([make_summary()], "terminal", file)

    text = file.getvalue()
    assert "Requests" in text
    assert "Tokens per" in text
    assert "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * 20 in text
    assert "|" not in text
