import json

from harness.arms.registry import ARMS
from scenarios.catalogue import CATALOGUE

from .conftest import Run, run_script


def test_the_list_names_arms_scenarios_and_their_cells():
    ran = run_script("list")

    assert (ran.code, ran.err) == (0, "")
    arms, providers, scenarios = ran.out.split("\n\n")
    assert providers.startswith("Providers of the stand-ins (--provider):\n  python ")
    assert "\n  nanobind " in providers
    # Absent on every machine that runs these tests.
    assert "absent: tensorrt_llm is not installed" in providers
    assert arms.startswith("Arms (--arms):\n")
    assert scenarios.startswith("Scenarios (--scenario):\n")
    listed = [line.split(None, 1) for line in arms.splitlines()[1:]]
    foreign = ["git:REV:NAME", "file:PATH", "trtllm:CHECKOUT", "trtllm:CHECKOUT@REV"]
    assert [name for name, _ in listed] == [*ARMS, *foreign]
    # An arm without a description would be a name without a meaning.
    assert all(len(text) > 20 for _, text in listed)
    lines = [line.strip() for line in scenarios.splitlines()]
    for cell in ("v2-16x8192", "v2-8x131072", "v1-64x8192", "v2-1x64", "v2-64x2048-overlap"):
        assert cell in lines
    assert [line.split()[0] for line in scenarios.splitlines()[1:] if line[2] != " "] == list(
        CATALOGUE
    )


def test_the_list_as_json_has_all_that_describes_a_cell(run_here: Run):
    ran = run_here("list", "--json")

    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert {"full-copy", "incremental"} <= set(document["arms"])
    reference = document["scenarios"]["reference"]
    assert "22092" in reference["summary"]
    assert len(reference["cells"]) == 8
    first = reference["cells"][0]
    assert (first["manager"], first["requests"], first["tokens"]) == ("v2", 16, 8192)
    assert first["tokens_per_block"] == 32
    assert reference["cells"][-1]["manager"] == "v1"
    assert list(document["scenarios"]) == list(CATALOGUE)
    assert list(document["providers"]) == ["python", "nanobind", "tensorrt_llm"]
    assert document["providers"]["python"]["absent"] is None


def test_the_list_needs_nothing_that_measures(run_here: Run):
    assert run_here("list").out == run_script("list").out
