"""What stepbench measures of this project: a step of the scheduler."""

import random

import stepbench


def scheduler_of(requests: int, tokens: int, seed: int):
    """Return a scheduler that runs so many requests with so many tokens each, all computed."""
    from pagedkv import BlockPool, Request, Scheduler

    rng = random.Random(seed)
    blocks = requests * (tokens // 16 + 80)
    scheduler = Scheduler(BlockPool(blocks), budget=requests * tokens, batch=requests)
    for number in range(requests):
        # Spread over a block, so that every step sees its share of new ones.
        length = tokens + number % 16
        prompt = [rng.randrange(32_000) for _ in range(length)]
        scheduler.add(Request(f"r{number}", prompt, limit=1_000_000))
    # Until all run and none has more than its next token to compute.
    while set(step(scheduler).values()) != {1} or len(scheduler.running) < requests:
        pass
    return scheduler


def step(scheduler) -> dict[str, int]:
    """Have a scheduler compute a step; return how many tokens of each request."""
    output = scheduler.schedule()
    scheduler.update({name: sum(map(ord, name)) % 32_000 for name in output.tokens})
    return output.tokens


@stepbench.step(cells=stepbench.grid(requests=[16, 64], tokens=[512, 4096]))
def decode(cell, seed):
    """Steady decode: every request computes one token a step."""
    scheduler = scheduler_of(cell["requests"], cell["tokens"], seed)
    names = scheduler.running
    sampled = {name: number for number, name in enumerate(names)}
    started = False

    def advance():
        nonlocal started
        if started:
            scheduler.update(sampled)
        started = True

    return stepbench.Step(scheduler.schedule, advance)
