"""The named scenarios: one entry each."""

from stepbench_core.errors import unknown
from stubs.kv_cache_v2 import LayerGroup

from .scenario import SteadyDecode, TraceReplay

# The table of TensorRT-LLM pull request #22092: seven cells with the V2 manager, one with V1.
_REFERENCE = (
    SteadyDecode(requests=16, tokens=8_192),
    SteadyDecode(requests=16, tokens=32_768),
    SteadyDecode(requests=64, tokens=2_048),
    SteadyDecode(requests=64, tokens=8_192),
    SteadyDecode(requests=256, tokens=2_048),
    SteadyDecode(requests=256, tokens=4_096),
    SteadyDecode(requests=8, tokens=131_072),
    SteadyDecode(requests=64, tokens=8_192, manager="v1"),
)

CATALOGUE: dict[str, tuple[str, tuple[SteadyDecode | TraceReplay, ...]]] = {
    "reference": ("the cells of TensorRT-LLM pull request #22092", _REFERENCE),
    "grid": (
        "twelve cells: those of the reference and four more",
        (
            *_REFERENCE,
            SteadyDecode(requests=16, tokens=2_048),
            SteadyDecode(requests=64, tokens=4_096),
            SteadyDecode(requests=16, tokens=8_192, manager="v1"),
            SteadyDecode(requests=64, tokens=2_048, manager="v1"),
        ),
    ),
    "small": (
        "few tokens, where calls weigh more than what they copy",
        tuple(
            SteadyDecode(requests=requests, tokens=tokens)
            for requests in (1, 8, 64)
            for tokens in (64, 512, 4_096)
        ),
    ),
    "context": (
        "one batch at ever longer contexts: what grows with them",
        tuple(
            SteadyDecode(requests=8, tokens=tokens) for tokens in (2_048, 8_192, 32_768, 131_072)
        ),
    ),
    "sliding-window": (
        "two layer groups, one with a window of 4,096 tokens and 64 sink tokens",
        tuple(
            SteadyDecode(
                requests=64,
                tokens=tokens,
                layer_groups=(LayerGroup(), LayerGroup(window=4_096, sink_tokens=64)),
            )
            for tokens in (2_048, 8_192, 32_768)
        ),
    ),
    "speculative": (
        "three draft tokens per request and iteration",
        tuple(
            SteadyDecode(requests=64, tokens=tokens, draft_tokens=3, boundaries="staggered")
            for tokens in (2_048, 8_192)
        ),
    ),
    "overlap": (
        "the overlap scheduler's order, with the last token not yet appended",
        tuple(SteadyDecode(requests=64, tokens=tokens, overlap=True) for tokens in (2_048, 8_192)),
    ),
}


def find_scenarios(name: str) -> tuple[SteadyDecode | TraceReplay, ...]:
    """Return the scenarios of a catalogue entry.

    Raises:
        InputError: there is no such entry; the message suggests the nearest.
    """
    if name not in CATALOGUE:
        raise unknown("scenario", name, CATALOGUE)
    return CATALOGUE[name][1]
