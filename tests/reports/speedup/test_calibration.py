"""What calls cost, as tables and as JSON."""

import io
import json
from collections.abc import Mapping, Sequence

from harness.calibrate.calibration import Cost
from reports.speedup.calibration import side_by_side, write_calibration
from reports.speedup.summary import Summary
from scenarios.scenario import SteadyDecode

from ..conftest import make_cell, make_summary


def make_process(tokens: float, longer: float, length: float, batch: float) -> list[Cost]:
    return [
        Cost("get_tokens(0)", "token", 256, tokens),
        Cost("get_num_tokens(0)", "call", None, length),
        Cost("V2 get_batch_updates, 64 requests", "request", None, batch),
        # Another size of the first call, which belongs beside it.
        Cost("get_tokens(0)", "token", 131_072, longer),
    ]


COSTS = {
    # The medians are not those of the process in the middle; two processes have a mean.
    "python": [
        make_process(20.0, 31.0, 60.0, 1_500.0),
        make_process(19.04, 30.0, 62.0, 1_234.4),
        make_process(25.0, 32.0, 61.0, 1_800.6),
    ],
    "nanobind": [make_process(11.0, 23.0, 99.94, 99.95), make_process(12.0, 23.0, 99.94, 99.95)],
}
WHERE = "Somewhere. Repeat with `stepbench calibrate`."
TABLE = (
    "| Call | Per | Size | python | nanobind | Published |\n"
    "| :--- | ---: | ---: | ---: | ---: | ---: |\n"
    "| get_tokens(0) | token | 256 | 20.0 (19.0 to 25.0) | 11.5 (11.0 to 12.0) | "
    "about 19.5; through nanobind 11.4 to 12.6, at 131,072 tokens 23 |\n"
    "|  | token | 131,072 | 31.0 (30.0 to 32.0) | 23.0 (23.0 to 23.0) |  |\n"
    "| get_num_tokens(0) | call |  | 61.0 (60.0 to 62.0) | 99.9 (99.9 to 99.9) | "
    "63 through nanobind |\n"
    "| V2 get_batch_updates, 64 requests | request |  | 1,500 (1,234 to 1,801) | "
    "100 (100 to 100) |  |"
)


def render(
    costs: Mapping[str, Sequence[Sequence[Cost]]],
    style: str = "markdown",
    summaries: Sequence[Summary] = (),
) -> str:
    file = io.StringIO()
    write_calibration(costs, summaries, WHERE, style, file)
    return file.getvalue()


def test_a_small_case_as_markdown():
    assert render(COSTS) == (
        "What a call of the stand-ins costs, in ns; median over processes (least to most):\n"
        "\n"
        f"{TABLE}\n"
        "\n"
        "Freeing what a call returns is part of its cost; the loop around it is not. Where the "
        "cost of a token or an index rises with the size, the list has left the cache. Published "
        "are figures of the real calls, or of a list built through nanobind, on other machines.\n"
        "\n"
        f"{WHERE}\n"
    )


def test_a_call_that_one_provider_lacks_is_a_dash():
    costs = {"a": [[Cost("x()", "call", None, 5)]], "b": [[Cost("y()", "call", None, 6)]]}
    rows = render(costs).split("\n\n")[1].splitlines()[2:]
    assert rows == [
        "| x() | call |  | 5.0 (5.0 to 5.0) | - |  |",
        "| y() | call |  | - | 6.0 (6.0 to 6.0) |  |",
    ]


def test_a_terminal_gets_the_same_words():
    text = render(COSTS, "terminal")
    assert "|" not in text
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "token 131,072 31.0 (30.0 to 32.0) 23.0 (23.0 to 23.0)" in rows
    assert text.startswith("What a call of the stand-ins costs, in ns; median over processes ")
    assert text.splitlines()[-1] == WHERE.replace("`", "'")


def test_json_has_each_process_of_each_provider():
    document = json.loads(render(COSTS, "json"))

    assert list(document) == ["where", "costs", "speedups"]
    assert (document["where"], document["speedups"]) == (WHERE, [])
    assert document["costs"][:2] == [
        {
            "provider": "python",
            "call": "get_tokens(0)",
            "unit": "token",
            "size": 256,
            "nanoseconds": [20.0, 19.04, 25.0],
        },
        {
            "provider": "nanobind",
            "call": "get_tokens(0)",
            "unit": "token",
            "size": 256,
            "nanoseconds": [11.0, 12.0],
        },
    ]
    assert [(row["call"], row["size"]) for row in document["costs"][2::2]] == [
        ("get_num_tokens(0)", None),
        ("V2 get_batch_updates, 64 requests", None),
        ("get_tokens(0)", 131_072),
    ]


def make_table(provider: str, *cells: tuple[SteadyDecode, float, float], note: str = "") -> Summary:
    """A summary in which the second arm is so many times as fast, give or take a half."""
    summary = make_summary(
        *(
            make_cell(
                scenario,
                {"full-copy": seconds, "incremental": seconds / ratio},
                {"incremental": (ratio, ratio - 0.5, ratio + 0.5)},
                requests=scenario.requests,
                tokens=scenario.tokens,
            )
            for scenario, seconds, ratio in cells
        ),
        notes=(note,) if note else (),
        provenance=f"Measured on {provider}.",
    )
    return Summary(**(vars(summary) | {"provider": provider}))


SMALL, LARGE = SteadyDecode(requests=2, tokens=64), SteadyDecode(requests=8, tokens=131_072)
V1 = SteadyDecode(requests=8, tokens=64, manager="v1")
SIDES = (
    make_table("python", (SMALL, 1e-3, 5), (LARGE, 2e-2, 40), note="A busy machine."),
    make_table("nanobind", (SMALL, 5e-5, 4), (LARGE, 1e-2, 100)),
)
SIDE_BY_SIDE = (
    "| Requests | Tokens per request | python: full-copy | incremental | Speedup (95 % interval) "
    "| nanobind: full-copy | incremental | Speedup (95 % interval) |\n"
    "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    "| 2 | 64 | 1.00 ms | 0.20 ms | 5.00x (4.50 to 5.50) "
    "| 50.0 us | 12.5 us | 4.00x (3.50 to 4.50) |\n"
    "| 8 | 131,072 | 20.0 ms | 0.50 ms | 40.0x (39.5 to 40.5) "
    "| 10.0 ms | 0.10 ms | 100x (99.5 to 100) |"
)


def test_the_speedups_on_each_provider_stand_side_by_side():
    parts = render(COSTS, summaries=SIDES).rstrip().split("\n\n")
    assert parts[3:] == [
        WHERE,
        "The speedup table on each of them:",
        SIDE_BY_SIDE,
        "A busy machine.",
        "Measured on nanobind.",
    ]
    assert parts[1] == TABLE


def test_json_has_the_speedups_of_each_provider():
    document = json.loads(render({}, "json", SIDES))
    assert document["costs"] == []
    assert [table["provider"] for table in document["speedups"]] == ["python", "nanobind"]
    cell = document["speedups"][1]["cells"][1]
    assert (cell["cell"], cell["seconds"]["full-copy"]["value"]) == ("v2-8x131072", 1e-2)
    assert cell["speedup"]["incremental"] == {"value": 100, "low": 99.5, "high": 100.5}


def test_cells_that_differ_have_columns_that_tell_them():
    table = side_by_side([make_table("python", (SMALL, 1e-3, 5), (V1, 2e-3, 4))])
    assert table.titles == (
        *("Requests", "Tokens per request", "Manager"),
        *("python: full-copy", "incremental", "Speedup (95 % interval)"),
    )
    assert table.texts == (
        ("2", "64", "V2", "1.00 ms", "0.20 ms", "5.00x (4.50 to 5.50)"),
        ("8", "64", "V1", "2.00 ms", "0.50 ms", "4.00x (3.50 to 4.50)"),
    )
