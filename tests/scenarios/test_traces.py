import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scenarios.traces import Trace, TraceRow, read_trace
from stepbench_core.errors import InputError

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
AZURE = HEADER + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
MOONCAKE = (
    '{"timestamp": 0, "input_length": 374, "output_length": 44, "hash_ids": [0, 1]}\n'
    '{"timestamp": 27, "input_length": 396, "output_length": 109, "hash_ids": []}\n'
)
ROWS = (TraceRow(374, 44), TraceRow(396, 109))
EXPECTED = (
    "expected a trace: CSV with the columns ContextTokens and GeneratedTokens (Azure) or Request "
    "tokens and Response tokens (BurstGPT), or JSON lines with input_length and output_length "
    "(Mooncake)"
)
NO_OBJECT = "not a JSON object with input_length and output_length"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def error(path: Path) -> str:
    """Return what is said about a file, without the folder that it lies in."""
    with pytest.raises(InputError) as caught:
        read_trace(path)
    return str(caught.value).removeprefix(str(path.parent) + "/")


BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,374,44,418,Conversation log\n"
    "45,GPT-4,396,109,505,API log\n"
)
BURSTGPT_2 = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5.0,a1,1.5,ChatGPT,374,44,418,Conversation log\n"
    "45.0,,2.0,GPT-4,396,109,505,API log\n"
)
AZURE_2024 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2024-05-10 00:00:00.009930+00:00,374,44\n"
    "2024-05-10 00:00:00.017335+00:00,396,109\n"
)


@pytest.mark.parametrize(
    "content",
    [
        AZURE,
        AZURE_2024,
        BURSTGPT,
        BURSTGPT_2,
        MOONCAKE,
        AZURE.rstrip("\n"),
        MOONCAKE.rstrip("\n"),
        HEADER + 'x,"374","44"\n\n\n"x, y",396,109,more\n',
        "\n \n" + HEADER + "x, 374 ,44\n  \n,,\nx,396,109\n",
        "GeneratedTokens,ContextTokens\n44,374\n109,396\n",
        "generatedtokens,Extra,CONTEXTTOKENS\n44,,374\n109,,396\n",
        "response_tokens;request_tokens\n44;374\n109;396\n",
        "\n" + MOONCAKE.replace("\n", "\n  \n\n"),
        MOONCAKE.replace("input_length", "Input_Length"),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "A.CSV", "trace", "a.jsonl.gz"])
@pytest.mark.parametrize(
    "encode",
    [
        str.encode,
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: gzip.compress(text.encode("utf-8-sig"), mtime=0),
    ],
    ids=["plain", "crlf", "mark", "utf-16", "gzip"],
)
def test_all_layouts_are_told_by_their_content(
    tmp_path: Path, content: str, name: str, encode: Callable[[str], bytes]
):
    path = write(tmp_path, name, encode(content))

    assert read_trace(path) == Trace(ROWS, 0)
    assert read_trace(str(path)) == Trace(ROWS, 0)


def test_the_ends_of_the_range_are_read(tmp_path: Path):
    path = write(tmp_path, "a.csv", HEADER + "x,1,1\nx,16777216,16777216\n")

    assert read_trace(path).rows == (TraceRow(1, 1), TraceRow(16_777_216, 16_777_216))


@pytest.mark.parametrize(
    "content",
    [
        BURSTGPT + "106,ChatGPT,0,0,0,Conversation log\n110,ChatGPT,12,0,12,Conversation log\n",
        AZURE + "x,1,0\nx,0,0\n",
        MOONCAKE + '{"input_length": 3, "output_length": 0}\n' * 2,
    ],
)
def test_requests_without_output_are_left_out_and_counted(tmp_path: Path, content: str):
    assert read_trace(write(tmp_path, "a", content)) == Trace(ROWS, 2)


def test_a_trace_of_failed_requests_alone_is_refused(tmp_path: Path):
    found = error(write(tmp_path, "a.csv", HEADER + "x,1,0\nx,0,0\n"))

    assert found == "a.csv: the trace has no requests with output: all 2 have failed"


def test_a_prompt_of_a_failed_request_is_a_number_still(tmp_path: Path):
    assert "the prompt length is 'many'" in error(write(tmp_path, "a", HEADER + "x,many,0\n"))


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("x,many,1", "prompt length is 'many'"),
        ("x,12.5,1", "prompt length is '12.5'"),
        ("x,-1,1", "prompt length is '-1'"),
        ("x,+1,1", "prompt length is '+1'"),
        ("x,0,1", "prompt length is '0'"),
        ("x,0,2", "prompt length is '0'"),
        ("x,1_0,1", "prompt length is '1_0'"),
        ("x,²,1", "prompt length is '²'"),
        ("x,16777217,1", "prompt length is '16777217'"),
        ("x,,1", "prompt length is ''"),
        ("x", "prompt length is None"),
        ("x,1", "output length is None"),
        ("x,1,-1", "output length is '-1'"),
        ("x,1,true", "output length is 'true'"),
        ("x,1,16777217", "output length is '16777217'"),
        (
            'x,1,"2\nx,1,2\n',
            "output length is '2\\nx,1,2'",
        ),  # The quote takes the rest of the file.
    ],
)
def test_a_malformed_azure_row_is_named_with_its_line(tmp_path: Path, row: str, text: str):
    # The blank lines count, although the reader passes over them.
    path = write(tmp_path, "a.csv", HEADER + "x,374,44\n\n\n" + row)

    least = 1 if text.startswith("prompt") else 0
    line = 5 + row.count("\n") // 2
    assert error(path) == (
        f"a.csv:{line}: the {text}, not a number of tokens from {least} to 16,777,216"
    )


@pytest.mark.parametrize("digits", [100, 5_000, 130_000])
def test_a_length_of_very_many_digits_is_refused_with_its_line(tmp_path: Path, digits: int):
    # Python reads no number of more than 4,300 digits.
    path = write(tmp_path, "a.csv", HEADER + f"x,{'9' * digits},1\n")

    found = error(path)
    assert found.startswith("a.csv:2: the prompt length is '999")
    assert found.endswith(", not a number of tokens from 1 to 16,777,216")
    assert len(found) < 250  # The line that is printed stays readable.


@pytest.mark.parametrize("blank_lines", [0, 2])
def test_a_field_beyond_the_limit_of_csv_is_refused_with_its_line(tmp_path: Path, blank_lines: int):
    path = write(tmp_path, "a.csv", AZURE + "\n" * blank_lines + f"x,{'9' * 200_000},1\n")

    assert error(path) == f"a.csv:{4 + blank_lines}: field larger than field limit (131072)"


def test_a_header_beyond_the_limit_of_csv_is_refused_with_its_line(tmp_path: Path):
    path = write(tmp_path, "a.csv", "x" * 200_000 + "," + AZURE)

    assert error(path) == "a.csv:1: field larger than field limit (131072)"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ('{"input_length": 1}', NO_OBJECT),
        ('{"output_length": 1}', NO_OBJECT),
        ('{"input_length": 1, "outp', NO_OBJECT),
        ("[1, 2]", NO_OBJECT),
        ("3", NO_OBJECT),
        ("null", NO_OBJECT),
        ('"input_length output_length"', NO_OBJECT),
        ("1,2", NO_OBJECT),
        ("[" * 100_000, NO_OBJECT),
        (f'{{"input_length": {"9" * 5_000}, "output_length": 1}}', NO_OBJECT),
        ('{"input_length": 12.5, "output_length": 1}', "the prompt length is 12.5, "),
        ('{"input_length": 12.0, "output_length": 1}', "the prompt length is 12.0, "),
        ('{"input_length": true, "output_length": 1}', "the prompt length is True, "),
        ('{"input_length": null, "output_length": 1}', "the prompt length is None, "),
        ('{"input_length": NaN, "output_length": 1}', "the prompt length is nan, "),
        ('{"input_length": "many", "output_length": 1}', "the prompt length is 'many', "),
        ('{"input_length": [1], "output_length": 1}', "the prompt length is [1], "),
        ('{"input_length": 0, "output_length": 1}', "the prompt length is 0, "),
        ('{"input_length": -1, "output_length": 1}', "the prompt length is -1, "),
        ('{"input_length": 1, "output_length": -1}', "the output length is -1, "),
        ('{"input_length": 1, "output_length": false}', "the output length is False, "),
        ('{"input_length": 1, "output_length": 16777217}', "the output length is 16777217, "),
        (f'{{"input_length": {10**100}, "output_length": 1}}', f"the prompt length is {10**100}, "),
    ],
)
def test_a_malformed_mooncake_row_is_named_with_its_line(tmp_path: Path, row: str, text: str):
    path = write(tmp_path, "a.jsonl", MOONCAKE + "\n" + row)

    assert error(path).startswith(f"a.jsonl:4: {text}")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", "", f"a.csv: it is empty: {EXPECTED}"),
        ("a.csv", "\n" * 3, f"a.csv: it is empty: {EXPECTED}"),
        ("a.csv", gzip.compress(b"", mtime=0), f"a.csv: it is empty: {EXPECTED}"),
        ("a.csv", "TIMESTAMP,GeneratedTokens\nx,1\n", "a.csv:1: no column ContextTokens"),
        ("a.csv", "\nRequest tokens,other\n1,1\n", "a.csv:2: no column Response tokens"),
        ("a.csv", HEADER, "a.csv: the trace has no requests"),
        ("a.csv", b"\x89PNG\r\n\x1a\n", "a.csv: it is not text, or not in UTF-8"),
        ("a.csv", AZURE.encode("utf-16-le"), "a.csv: it is not text, or not in UTF-8"),
        ("a.jsonl", "a,b\n1,2\n", f"a.jsonl:1: {EXPECTED}; found 'a,b'"),
        ("a.jsonl", "[1, 2]\n", f"a.jsonl:1: {EXPECTED}; found '[1, 2]'"),
        ("a.jsonl", MOONCAKE.encode() + b"\xff\xfe", "a.jsonl: it is not text, or not in UTF-8"),
        (
            "a.csv.gz",
            gzip.compress(AZURE.encode(), mtime=0)[:-9],
            "a.csv.gz: a truncated gzip file",
        ),
        (
            "a.csv.gz",
            gzip.compress(AZURE.encode(), mtime=0)[:-8] + b"8" * 8,
            "a.csv.gz: a damaged gzip file",
        ),
        ("a.csv", "x" * 2_000_000, "a.csv:1: a line of more than 1,048,576 characters"),
        (
            "a.gz",
            gzip.compress((b" " * 1023 + b"\n") * 2**15, mtime=0),
            "a.gz: it holds more than 16 MiB, which is too much to be read",
        ),
    ],
)
def test_a_file_that_is_no_trace_is_refused(
    tmp_path: Path, name: str, content: str | bytes, text: str
):
    assert error(write(tmp_path, name, content)) == text


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path):
    (tmp_path / "folder.jsonl").mkdir()

    assert error(tmp_path / "none.csv") == "none.csv: No such file or directory"
    assert error(tmp_path / "folder.jsonl") == "folder.jsonl: Is a directory"


@pytest.mark.parametrize(
    ("name", "rows", "prompts", "outputs", "contexts"),
    [
        (
            "azure_llm_2023_conv.csv",
            19_366,
            "1020 2734.5 4142 14050",
            "129 424 601",
            "1250 1552 4153",
        ),
        (
            "mooncake_fast25_conversation.jsonl",
            12_031,
            "6909 27367 85400 126195",
            "350 597 1118.5",
            "7699 29855 87755",
        ),
    ],
)
def test_the_complete_public_traces_have_their_known_percentiles(
    name: str, rows: int, prompts: str, outputs: str, contexts: str
):
    folder = os.environ.get("STEPBENCH_TRACES")
    if folder is None:
        pytest.skip("STEPBENCH_TRACES names no folder with the public traces")
    trace = read_trace(Path(folder) / name).rows
    steps = [np.arange(row.prompt + 1, row.prompt + row.output + 1) for row in trace]

    assert len(trace) == rows
    assert percentiles([row.prompt for row in trace], [50, 90, 99, 100]) == prompts
    assert percentiles([row.output for row in trace], [50, 90, 99]) == outputs
    # What a decode iteration sees: each request once for every token that it generates.
    assert percentiles(np.concatenate(steps), [50, 90, 99]) == contexts


def percentiles(values: "list[int] | np.ndarray", which: list[int]) -> str:
    """Return percentiles as they were published: halves kept, everything else whole."""
    found = np.percentile(values, which).round(1)
    return " ".join(f"{v:.1f}" if v % 1 == 0.5 else f"{v:.0f}" for v in found)
