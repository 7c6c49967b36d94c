"""In which order arms are told of a request between two reports: what a random run reached of it.

Which orders there are follows from TensorRT-LLM's executor. A request is *recorded* when it is
admitted, which asks the connector, once an admission, and says at once whether it is *loaded*
aside. An admission can be undone by another one in the same iteration, and made again: *reset*,
recorded. An iteration that is not launched, since another rank has nothing to run, gives no report,
and the next one asks anew: recorded twice. A batch may lose a recorded request before the report,
which then empties what was recorded of it.
"""

from collections.abc import Collection, Iterator

_RECORDED, _LOADED, _RESET, _PAUSED, _DROPPED, _FINISHED = "rlxpqf"
# After these nothing that came before is of this admission any more.
_ENDS = _RESET + _PAUSED + _DROPPED + _FINISHED

ORDERS = (
    *("recorded twice", "recorded when known", "recorded, loaded", "loaded, reset"),
    *("recorded, reset, reported", "recorded, reset, recorded", "recorded, reset, not reported"),
    *("recorded, paused", "recorded, dropped", "recorded, not reported"),
    *("reset twice", "reset when unknown", "reset, id reused", "dropped, id reused"),
)


class Orders:
    """What happened to each request id since the last report. Each call yields what it completes.

    Attributes are private: a world tells what it does, in its order, and notes what comes back.
    """

    def __init__(self) -> None:
        self._since: dict[int, str] = {}
        self._known: set[int] = set()
        self._parked: set[int] = set()

    def joined(self, request_id: int) -> Iterator[str]:
        """Take in that a new request has an id."""
        before = self._since.get(request_id, "")
        if before.endswith(_FINISHED):
            yield "reset, id reused"
        elif before.endswith(_DROPPED):
            yield "dropped, id reused"

    def recorded(self, request_id: int, *, loaded: bool) -> Iterator[str]:
        """Take in that the connector offers tokens of a request, perhaps to load them aside."""
        before = self._since.get(request_id, "")
        if _RECORDED in _admission(before):
            yield "recorded, loaded" if loaded else "recorded twice"
        elif _RECORDED in before and before.endswith(_RESET):
            yield "recorded, reset, recorded"
        if request_id in self._known:
            yield "recorded when known"
        self._since[request_id] = before + _RECORDED + _LOADED * loaded

    def reset(self, request_id: int) -> Iterator[str]:
        """Take in that the allocation of a request was destroyed, and that the arms were told."""
        yield from self._told(request_id, _RESET)

    def paused(self, request_id: int) -> Iterator[str]:
        """Take in that the allocation of a request was destroyed, and that nobody was told."""
        if _RECORDED in self._then(request_id, _PAUSED):
            yield "recorded, paused"

    def left(self, request_id: int, *, told: bool) -> Iterator[str]:
        """Take in that a request left, and whether the arms were told to forget it."""
        if _RECORDED in _admission(self._since.get(request_id, "")):
            yield "recorded, dropped"
        if told:
            yield from self._told(request_id, _FINISHED)
        else:
            self._then(request_id, _DROPPED)

    def reported(self, ids: Collection[int], loading: Collection[int]) -> Iterator[str]:
        """Take in that a report says something of ``ids`` and leaves out those being loaded."""
        for request_id, before in self._since.items():
            if _RECORDED not in before:
                continue
            if before.endswith(_RESET):
                is_reported = "reported" if request_id in ids else "not reported"
                yield f"recorded, reset, {is_reported}"
            elif before.endswith(_RECORDED) and request_id not in ids and ids:
                yield "recorded, not reported"
        self._since = {}
        self._known.update(ids)
        self._parked = set(loading)

    def _told(self, request_id: int, how: str) -> Iterator[str]:
        before = self._then(request_id, how)
        if before.endswith(_RESET):
            yield "reset twice"
        if request_id not in self._known:
            yield "reset when unknown"
        if _LOADED in _admission(before) or request_id in self._parked:
            yield "loaded, reset"
        self._known.discard(request_id)
        self._parked.discard(request_id)

    def _then(self, request_id: int, what: str) -> str:
        """Note what happened; return what had happened before."""
        before = self._since.get(request_id, "")
        self._since[request_id] = before + what
        return before


def _admission(before: str) -> str:
    """Return what happened since the last admission ended."""
    return before[1 + max(before.rfind(end) for end in _ENDS) :]
