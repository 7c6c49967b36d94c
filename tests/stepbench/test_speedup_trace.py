import gzip
import json
import os
from pathlib import Path

import pytest

from .conftest import Run, assert_refused, stored_runs

TRACES = os.environ.get("STEPBENCH_TRACES", "")
real_trace = pytest.mark.skipif(
    not TRACES, reason="STEPBENCH_TRACES names no folder with the real traces"
)
QUICK = ("--quick", "--processes", "1", "-o", "x.json")


@pytest.fixture
def azure() -> str:
    """A trace of sixty requests that keeps four of them in the batch for some 400 iterations."""
    rows = [f"2023-11-16 18:15:{row:02},{10 + row % 7},{20 + row % 11}" for row in range(60)]
    Path("small.csv").write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    return "small.csv"


@pytest.fixture
def mooncake() -> str:
    """The same lengths in the other format."""
    rows = [
        json.dumps({"timestamp": row, "input_length": 10 + row % 7, "output_length": 20 + row % 11})
        for row in range(60)
    ]
    Path("small.jsonl").write_text("\n".join(rows))
    return "small.jsonl"


@pytest.mark.parametrize("manager", ["v1", "v2"])
def test_a_trace_is_replayed(run_here: Run, azure: str, manager: str):
    ran = run_here(
        "speedup", "--trace", azure, "--max-batch", "4", "--manager", manager, *QUICK, "--json"
    )

    assert ran.code == 0
    (result,) = json.loads(ran.out)["results"]
    (cell,) = result["cells"]
    assert cell["cell"] == f"{manager}-trace=small-batch=4"
    assert cell["scenario"]["path"] == str(Path("small.csv").absolute())
    # A finished request makes room for one of the next iteration: nearly four at all times.
    assert 3 < cell["requests"] <= 4
    # Prompts of 10 to 16 tokens that grow by 20 to 30.
    assert 10 <= cell["tokens_mean"] <= 46
    assert cell["processes"] == {"full-copy": 1, "incremental": 1}
    assert "its own stretch of the trace's steady part" in result["provenance"]
    assert "Sequences grow" not in result["provenance"]


def test_both_formats_of_a_trace_are_the_same_work(run_here: Run, azure: str, mooncake: str):
    shapes = []
    for number, trace in enumerate((azure, mooncake)):
        ran = run_here(
            *("speedup", "--trace", trace, "--max-batch", "4", "--arms", "full-copy", "--json"),
            *("--quick", "--processes", "1", "-o", f"{number}.json"),
        )
        assert ran.code == 0
        (cell,) = json.loads(ran.out)["results"][0]["cells"]
        shapes.append((cell["requests"], cell["tokens_mean"]))

    assert shapes[0] == shapes[1]


def test_a_trace_takes_the_settings_of_a_scenario(run_here: Run, azure: str):
    ran = run_here(
        *("speedup", "--trace", azure, "--max-batch", "4", "--max-num-tokens", "40"),
        *("--draft-tokens", "1", "--overlap", "--tokens-per-block", "8"),
        *("--layer-groups", "full,window=16", "--page-backend", "generator", *QUICK),
    )

    assert ran.code == 0
    assert "trace=small batch=4 budget=40 block=8 groups=full,window=16" in ran.out
    assert "(mean)" in ran.out
    assert len(stored_runs("x.json")) == 2


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("none.csv", None, "none.csv: No such file or directory"),
        ("trace.txt", "1,2,3", "trace.txt:1: expected a trace: "),
        ("empty.csv", "", "empty.csv: it is empty: expected a trace: "),
        ("bare.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "the trace has no requests"),
        ("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nx,5,5\nx,5,many\n", "a.csv:3: "),
        ("b.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nx,0,5\n", "b.csv:2: the prompt length"),
        ("c.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nx,5,-1\n", "c.csv:2: the output "),
        ("d.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nx,5\n", "d.csv:2: "),
        ("e.jsonl", '{"input_length": 5, "output_length": 5}\n{"input_length": 5}\n', "e.jsonl:2:"),
        ("f.jsonl", '{"input_length": 5, "output_length": 5}\n[1]\n', "f.jsonl:2:"),
        ("g.jsonl", '{"input_length": 5.5, "output_length": 5}\n', "g.jsonl:1: the prompt length"),
    ],
)
def test_a_bad_trace_is_refused_with_file_and_line(
    run_here: Run, name: str, text: str | None, refusal: str
):
    if text is not None:
        Path(name).write_text(text)

    assert_refused(run_here("speedup", "--trace", name, *QUICK), refusal)
    assert not Path("x.json").exists()


def test_a_trace_that_is_too_short_is_refused_before_anything_is_measured(
    run_here: Run, azure: str
):
    ran = run_here("speedup", "--trace", azure, "--max-batch", "4", "--rounds", "100")

    assert_refused(ran, "small.csv", "60 requests", "1,710 are wanted", "smaller --max-batch")
    assert not list(Path().rglob("*.json"))


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["--boundaries", "staggered"], ["--boundaries", "--trace"]),
        (["--cells", "1x1"], ["--cells and --trace exclude each other"]),
        (["--scenario", "small"], ["--scenario and --trace exclude each other"]),
        (["--max-batch", "0"], ["maximum batch size", "not 0"]),
        (["--max-batch", "100001"], ["maximum batch size", "not 100,001"]),
        (["--max-num-tokens", "0"], ["tokens per iteration", "not 0"]),
        (["--max-num-tokens", "16"], ["no room for a context chunk", "need 96"]),
    ],
)
def test_options_that_do_not_go_with_a_trace_are_refused(
    run_here: Run, azure: str, arguments: list[str], texts: list[str]
):
    assert_refused(run_here("speedup", "--trace", azure, *arguments, *QUICK), *texts)


@real_trace
def test_a_real_trace_is_replayed(run_here: Run):
    trace = Path(TRACES) / "azure_llm_2023_conv.csv"

    ran = run_here("speedup", "--trace", str(trace), "--max-batch", "16", *QUICK, "--json")

    assert ran.code == 0
    (cell,) = json.loads(ran.out)["results"][0]["cells"]
    assert cell["cell"] == "v2-trace=azure_llm_2023_conv-batch=16"
    assert 15 < cell["requests"] <= 16
    assert 200 < cell["tokens_mean"] < 8000
    assert {len(values) for values in stored_runs("x.json").values()} == {15}


@real_trace
def test_another_real_trace_is_replayed(run_here: Run):
    trace = Path(TRACES) / "mooncake_fast25_conversation.jsonl"

    ran = run_here(
        "speedup", "--trace", str(trace), "--max-batch", "4", "--arms", "incremental", *QUICK
    )

    assert ran.code == 0
    assert "trace=mooncake_fast25_conversation batch=4" in ran.out


@pytest.mark.parametrize("name", ["Burst.CSV.gz", "burst"])
def test_a_trace_of_another_layout_is_told_by_its_content(run_here: Run, name: str):
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
    rows = [f"{row},GPT-4,{10 + row % 7},{20 + row % 11},0,API log" for row in range(60)]
    failed = [f"{row},ChatGPT,0,0,0,Conversation log" for row in range(37)]
    text = "\r\n".join([head, *failed, "", *rows])
    Path(name).write_bytes(gzip.compress(text.encode("utf-8-sig"), mtime=0))

    ran = run_here("speedup", "--trace", name, "--max-batch", "4", *QUICK, "-q", "--json")

    assert ran.code == 0
    file = Path(name).absolute()
    assert ran.err == f"stepbench: {file}: 37 requests without output were left out\n"
    (cell,) = json.loads(ran.out)["results"][0]["cells"]
    assert cell["cell"] == f"v2-trace={'Burst' if name != 'burst' else name}-batch=4"


def test_what_is_no_trace_is_refused_with_what_one_is(run_here: Run):
    Path("x.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n", mtime=0))

    refused = run_here("speedup", "--trace", "x.csv.gz", *QUICK)

    assert_refused(refused, "x.csv.gz:1: expected a trace: ", "BurstGPT", "found 'a,b'")
