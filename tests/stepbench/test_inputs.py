"""Files as they come: marked, compressed, or of somebody else."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyperf
import pytest

from .conftest import ONE, Run, assert_refused, run_script, stored_runs


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: gzip.compress(text.encode(), mtime=0),
        lambda text: gzip.compress(text.encode("utf-8-sig"), mtime=0),
        lambda text: json.dumps(json.loads(text), indent=1).replace("\n", "\r\n").encode(),
    ],
    ids=["mark", "utf-16", "gzip", "gzip and mark", "crlf"],
)
@pytest.mark.parametrize("name", ["y.json", "y.json.gz", "y"])
def test_a_report_is_the_same_of_all_encodings(
    run_here: Run, results: str, encode: Callable[[str], bytes], name: str
):
    Path(name).write_bytes(encode(Path(results).read_text()))

    expected, ran = run_here("report", results, "--json"), run_here("report", name, "--json")

    assert (ran.code, ran.err) == (0, "")
    (before,), (found,) = (json.loads(each.out)["results"] for each in (expected, ran))
    assert found | {"file": results} == before


@pytest.mark.parametrize(
    ("arguments", "is_pyperf"),
    [
        (("speedup", *ONE), True),
        (("compare", "incremental", "incremental", "--cells", "1x8", "--seconds", "0.1"), False),
        (("overlap", "--cells", "1x8", "--processes", "1", "--iterations", "5"), False),
    ],
    ids=["speedup", "compare", "overlap"],
)
def test_a_name_of_gzip_is_written_and_read_as_such(
    run_here: Run, arguments: tuple[str, ...], is_pyperf: bool
):
    ran = run_here(*arguments, "-o", "x.json.gz", "-q")

    assert ran.code in (0, 3), ran.err
    json.loads(gzip.decompress(Path("x.json.gz").read_bytes()))
    assert run_here("report", "x.json.gz").code == 0
    if is_pyperf:
        assert stored_runs("x.json.gz")
        assert isinstance(pyperf.BenchmarkSuite.load("x.json.gz"), pyperf.BenchmarkSuite)


def test_a_budget_with_a_byte_order_mark(run_here: Run):
    cells = ("--cells", "1x8", "--arms", "incremental", "--budget", "b.toml")
    assert run_here("count", *cells, "--update").code == 0
    text = Path("b.toml").read_text()
    Path("b.toml").write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))

    assert run_here("count", *cells, "--check").code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "found an empty list"),
        (b"{}", "found an empty object"),
        (b"null", "found null"),
        (b'"text"', "found a text"),
        (b"12", "found a number"),
        (b'{"datetime": "x", "commit_info": {}}', "found an object with 'datetime', 'commit_info'"),
        (b"", "it is empty"),
        (b'{"a": [1, 2', "it is truncated: it ends within line 1"),
        (b"a,b\n1,2\n", "found 'a,b' at line 1, column 1"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": NaN}', "NaN is no number in JSON"),
        (b'{"a": 1, "a": 2}', "'a' stands twice in the same object"),
        (b"9" * 10_000, "a number of more than 4,300 digits"),
        (b"\x7fELF\x02\xff\xff", "it is not text, or not in UTF-8"),
        (gzip.compress(b"{}", mtime=0)[:-4], "a truncated gzip file"),
        (
            gzip.compress(b"[" * 2**26, mtime=0),
            "it holds more than 16 MiB, which is too much to be read",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_file_of_somebody_else_is_said_to_be_what_it_is(run_here: Run, content: bytes, said: str):
    Path("x.json").write_bytes(content)

    assert_refused(run_here("report", "x.json"), "x.json: ", said)


def test_through_the_script_as_well(tmp_path: Path):
    (tmp_path / "x.json").write_text("[]")

    assert_refused(
        run_script("report", "x.json"),
        "x.json: expected a results file of stepbench, found an empty list",
    )
