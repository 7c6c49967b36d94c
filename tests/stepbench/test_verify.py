"""``stepbench verify`` through its entry point."""

import json

import pytest

from stepbench import verify as command

from .conftest import Run, assert_refused


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch):
    """Plays in this process, where the arms can be changed."""
    monkeypatch.setattr(command, "_LIMIT", None)


def test_arms_that_do_the_same(run_here: Run):
    ran = run_here("verify", "--runs", "6", "--jobs", "1", "-q")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(
        "Same: `incremental`, `page-growth`, `page-range`, `batched`, `native-output` gave the "
        "outputs of `full-copy`, field by field, in 6 random runs with "
    )


def test_one_run_as_json_and_the_coverage_as_a_table(run_here: Run):
    document = json.loads(run_here("verify", "page-range", "--run", "4", "-q", "--json").out)

    assert document["arms"] == ["page-range"]
    assert (document["runs"], document["same"], document["difference"]) == (1, True, None)
    table = run_here("verify", "page-range", "--run", "4", "-q", "--coverage").out
    assert f"| join | {document['coverage']['join']} | 100% |" in table


@pytest.mark.usefixtures("here")
def test_a_wrong_arm_ends_in_a_finding(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("connector.incremental.get_draft_token_length", lambda _req: 0)

    ran = run_here("verify", "incremental", "--runs", "5", "--jobs", "1", "-q")

    assert ran.code == 1
    assert ran.out.startswith(
        "Different: `incremental` departs from `full-copy` in run 0 of seed 0"
    )
    assert (
        "Repeat with `stepbench verify incremental --against full-copy --seed 0 --run 0 --provider "
        in (ran.out)
    )
    document = json.loads(
        run_here("verify", "incremental", "--run", "0", "--jobs", "1", "-q", "--json").out
    )
    assert document["same"] is False
    assert document["difference"]["run"] == 0
    assert document["difference"]["operations"][-1] == "report()"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["page-rang"], "did you mean 'page-range'?"),
        (["floor"], "unknown arm 'floor'"),
        (["--against", "nobody"], "unknown arm 'nobody'"),
        (["--jobs", "many"], "--jobs takes a number of processes or 'auto', not 'many'"),
        (["--jobs", "0"], "--jobs takes"),
        (["--runs", "0"], "--runs"),
        (["--self-test", "batched"], "--self-test takes no arms"),
    ],
)
def test_bad_input_is_refused(run_here: Run, arguments: list[str], text: str):
    assert_refused(run_here("verify", *arguments), text)


@pytest.mark.parametrize(("least", "code"), [(1, 0), (4, 1)])
def test_the_self_test_counts_what_is_caught(
    run_here: Run, monkeypatch: pytest.MonkeyPatch, least: int, code: int
):
    monkeypatch.setattr(command, "_SELF_TEST_RUNS", 3)
    monkeypatch.setattr(command, "_SELF_TEST_LEAST", least)

    ran = run_here("verify", "--self-test", "--jobs", "1", "-q")

    assert ran.code == code
    assert "| aliased lists | 3 of 3 |" in ran.out
    assert len(ran.out.splitlines()) >= 2 + 10
    assert (
        json.loads(run_here("verify", "--self-test", "--jobs", "1", "-q", "--json").out)["caught"][
            "aliased lists"
        ]
        == 3
    )
