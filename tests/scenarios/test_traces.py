import os
from pathlib import Path

import numpy as np
import pytest

from scenarios.errors import InputError
from scenarios.traces import TraceRow, read_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
AZURE = HEADER + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
MOONCAKE = (
    '{"timestamp": 0, "input_length": 374, "output_length": 44, "hash_ids": [0, 1]}\n'
    '{"timestamp": 27, "input_length": 396, "output_length": 109, "hash_ids": []}\n'
)
ROWS = [TraceRow(374, 44), TraceRow(396, 109)]
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


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", AZURE),
        ("a.csv", AZURE.replace("\n", "\r\n")),
        ("a.csv", AZURE.rstrip("\n")),
        ("a.csv", HEADER + 'x,"374","44"\n\n\n"x, y",396,109,more\n'),
        ("a.csv", "GeneratedTokens,ContextTokens\n44,374\n109,396\n"),
        ("a.csv", "\ufeff" + AZURE),
        # The mark sticks to the first name unless the reader takes it off.
        ("a.csv", "\ufeffContextTokens,GeneratedTokens\n374,44\n396,109\n"),
        ("a.jsonl", MOONCAKE),
        ("a.jsonl", MOONCAKE.replace("\n", "\r\n")),
        ("a.jsonl", MOONCAKE.rstrip("\n")),
        ("a.jsonl", "\n" + MOONCAKE.replace("\n", "\n  \n\n")),
        ("a.jsonl", "\ufeff" + MOONCAKE),
    ],
)
def test_both_formats_are_read_in_file_order(tmp_path: Path, name: str, content: str):
    path = write(tmp_path, name, content)

    assert read_trace(path) == ROWS
    assert read_trace(str(path)) == ROWS


def test_the_ends_of_the_range_are_read(tmp_path: Path):
    path = write(tmp_path, "a.csv", HEADER + "x,1,0\nx,16777216,16777216\n")

    assert read_trace(path) == [TraceRow(1, 0), TraceRow(16_777_216, 16_777_216)]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("x,many,1", "prompt length is 'many'"),
        ("x,12.5,1", "prompt length is '12.5'"),
        ("x,-1,1", "prompt length is '-1'"),
        ("x,+1,1", "prompt length is '+1'"),
        ("x,0,1", "prompt length is '0'"),
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
            "output length is '2\\nx,1,2\\n'",
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
        ("a.csv", "", "a.csv:1: no column ContextTokens, GeneratedTokens"),
        ("a.csv", "\n" * 3, "a.csv:1: no column ContextTokens, GeneratedTokens"),
        ("a.csv", "TIMESTAMP,GeneratedTokens\nx,1\n", "a.csv:1: no column ContextTokens"),
        ("a.csv", "ContextTokens,generatedtokens\n1,1\n", "a.csv:1: no column GeneratedTokens"),
        ("a.csv", MOONCAKE, "a.csv:1: no column ContextTokens, GeneratedTokens"),
        ("a.csv", HEADER, "a.csv: the trace has no requests"),
        ("a.csv", b"\x89PNG\r\n\x1a\n", "a.csv: not a text file"),
        ("a.csv", bytes(range(64)), "a.csv:1: no column ContextTokens, GeneratedTokens"),
        ("a.csv", AZURE.encode("utf-16"), "a.csv: not a text file"),
        ("a.jsonl", "", "a.jsonl: the trace has no requests"),
        ("a.jsonl", "\n\n", "a.jsonl: the trace has no requests"),
        ("a.jsonl", AZURE, f"a.jsonl:1: {NO_OBJECT}"),
        ("a.jsonl", MOONCAKE.encode() + b"\xff\xfe", "a.jsonl: not a text file"),
        ("a.txt", AZURE, "a.txt: a trace is a .csv (Azure) or a .jsonl (Mooncake) file"),
        ("trace", AZURE, "trace: a trace is a .csv (Azure) or a .jsonl (Mooncake) file"),
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
    trace = read_trace(Path(folder) / name)
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
