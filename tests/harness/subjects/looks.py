"""An arm that notes what it sees: a file per process, a line for its import and for each call.

``STEPBENCH_SUBJECTS`` names the folder for its notes.
"""

import gc
import hashlib
import json
import os
import sys
from pathlib import Path

from connector import incremental
from connector.data import RequestData, SchedulerOutput
from connector.interfaces import AsyncRequests, KVCacheManagerV2, ScheduledRequests

_FROZEN_AT_START = gc.get_freeze_count()

# State of this module, and so of one of its copies.
calls: list[int] = []


def note(**seen: object) -> None:
    path = Path(os.environ["STEPBENCH_SUBJECTS"]) / f"{os.getpid()}.jsonl"
    with path.open("a") as file:
        file.write(json.dumps({"module": __name__, **seen}) + "\n")


note(event="import", hash_seed=os.environ["PYTHONHASHSEED"])


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(
        self, batch: ScheduledRequests, loading: AsyncRequests, manager: KVCacheManagerV2
    ) -> object:
        calls.append(1)
        tokens = repr([request.get_tokens(0) for request in batch.generation_requests])
        output = super().build_scheduler_output(batch, loading, manager)
        (data, *_) = output.cached_requests
        note(
            event="call",
            call=len(calls),
            tokens=hashlib.sha256(tokens.encode()).hexdigest(),
            objects=[id(batch), id(loading), id(manager)],
            types=[id(SchedulerOutput), id(RequestData)],
            instances=[
                isinstance(manager, KVCacheManagerV2),
                isinstance(output, SchedulerOutput),
                isinstance(data, RequestData),
            ],
            cpus=sorted(os.sched_getaffinity(0)),
            collector=gc.isenabled(),
            frozen=gc.get_freeze_count() > _FROZEN_AT_START,
            heavy=sorted({"pandas", "rich", "matplotlib", "scipy"} & set(sys.modules)),
        )
        return output
