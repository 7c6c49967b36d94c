"""Processes that take turns, really run."""

import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

import psutil
import pytest

from harness.system.turns import balanced_orders, run_in_turns, turn_orders
from harness.system.worker_process import Child
from stepbench_core.errors import LostWorkerError, NotRunnableError, WorkerError

from ..helpers import child_processes

pytestmark = pytest.mark.usefixtures("no_child_left")

# Notes each of its turns in a file that all share, and prints its job at the end.
PLAYER = """
import os, sys
from harness.system.turns import take_job
job, turns = take_job()
name, path, *more = job.split()
number = 0
while turns.wait():
    with open(path, "a") as file:
        file.write(name)
    number += 1
    if more:
        exec(" ".join(more))
print(name, number, sys.stdin.read() == "")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns"


def player(name: str, path: Path, more: str = "", program: str = PLAYER) -> Child:
    return Child(f"worker {name}", [sys.executable, "-c", program], 1, f"{name} {path} {more}")


def play(
    children: Sequence[Child], orders: Sequence[Sequence[int]], limit: float = 30
) -> list[str | WorkerError]:
    return run_in_turns(children, orders, limit)


def test_workers_go_one_at_a_time_in_the_order_that_they_are_given(path: Path):
    children = [player(name, path) for name in "abc"]

    said = play(children, [[0, 1, 2], [2, 1, 0], [1, 1]])

    assert path.read_text() == "abccbabb"
    # And what they would read is not meant for them.
    assert said == ["a 2 True\n", "b 4 True\n", "c 2 True\n"]


def test_the_next_order_is_asked_for_when_the_last_is_over(path: Path):
    seen = []

    def orders() -> Iterator[list[int]]:
        for _ in range(3):
            seen.append(path.read_text() if path.exists() else "")
            yield [0, 1]

    run_in_turns([player("a", path), player("b", path)], orders(), 30)

    assert seen == ["", "ab", "abab"]


@pytest.mark.parametrize(
    ("end", "kind", "words"),
    [
        ("os._exit(3)", WorkerError, "worker b: the worker exited with 3"),
        ("raise KeyError(1)", WorkerError, "worker b: the worker failed: KeyError: 1"),
        ("os.kill(os.getpid(),9)", LostWorkerError, "worker b: the worker was killed by SIGKILL"),
        ("import time; time.sleep(60)", WorkerError, "worker b: the worker hung: no result after"),
    ],
)
def test_the_others_go_on_without_one_that_fails(
    path: Path, end: str, kind: type[WorkerError], words: str
):
    children = [player("a", path), player("b", path, f"if number == 2: {end}"), player("c", path)]

    first, second, third = play(children, [[0, 1, 2]] * 4, 5.0 if "sleep" in end else 30)

    assert (first, third) == ("a 4 True\n", "c 4 True\n")
    assert path.read_text() == "abcabcacac"
    assert type(second) is kind
    assert str(second).startswith(words)


def test_one_that_never_asks_for_a_turn_gives_what_it_printed(path: Path):
    silent = player("a", path, program="print('nothing to do')")

    assert play([silent, player("b", path)], [[0, 1]]) == ["nothing to do\n", "b 1 True\n"]


def test_what_is_not_here_ends_all(path: Path):
    refused = player("a", path, program="import sys; sys.exit('x.NotRunnableError: uses torch')")

    with pytest.raises(NotRunnableError, match=r"^uses torch$"):
        play([player("b", path), refused], [[0, 1]])


def test_a_hanging_start_is_told(path: Path):
    with_pause = player("a", path, program="import time; time.sleep(60)")

    (error,) = play([with_pause], [[0]], 0.2)

    assert str(error) == "worker a: the worker hung: no result after 0.2 s"


def test_an_interruption_leaves_nothing(path: Path):
    before, files = child_processes(), psutil.Process().num_fds()

    def orders() -> Iterator[list[int]]:
        yield [0, 1]
        os.kill(os.getpid(), signal.SIGINT)
        yield [0, 1]

    with pytest.raises(KeyboardInterrupt):
        run_in_turns([player("a", path), player("b", path)], orders(), 30)

    assert child_processes() == before
    assert psutil.Process().num_fds() == files


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_orders_are_balanced(count: int):
    orders = balanced_orders(count, random.Random(count))

    assert all(sorted(order) == list(range(count)) for order in orders)
    # Each has each place as often as any other, and each neighbour.
    places = Counter((arm, place) for order in orders for place, arm in enumerate(order))
    neighbours = Counter(pair for order in orders for pair in pairwise(order))
    assert set(places.values()) == {len(orders) // count}
    assert len(set(neighbours.values())) <= 1
    assert len(neighbours) == count * (count - 1)


def test_orders_differ_with_the_seed_and_are_the_same_again():
    first, again, other = (list(islice(turn_orders(3, seed), 60)) for seed in ("a", "a", "b"))

    assert first == again != other
    assert Counter(map(tuple, first)).most_common(1)[0][1] == 10
