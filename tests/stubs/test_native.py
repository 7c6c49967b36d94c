"""What only the extension module can get wrong: its types, its objects' lives, its memory."""

import ast
import gc
import inspect
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from connector.interfaces import LlmRequestState
from stubs.kv_cache_v2 import LayerGroup
from stubs.providers import Provider, absent, load_provider
from stubs.request import LlmRequest as PythonRequest

ROOT = Path(__file__).parent.parent.parent
TYPES = ROOT / "stubs" / "native" / "stepbench_native.pyi"


@pytest.fixture(scope="module")
def nanobind() -> Provider:
    reason = absent("nanobind")
    if reason is not None:
        pytest.skip(reason)
    return load_provider("nanobind")


@pytest.fixture(scope="module")
def native(nanobind: Provider) -> ModuleType:
    """The extension module, with all that its provider does to it."""
    return sys.modules[nanobind.LlmRequest.__base__.__module__]


def run(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_types_are_those_of_the_module(native: ModuleType):
    def names(body: list[ast.stmt]) -> set[str]:
        found = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        return found | {node.target.id for node in body if isinstance(node, ast.AnnAssign)}

    types = ast.parse(TYPES.read_text()).body
    assert names(types) == {name for name in dir(native) if not name.startswith("_")}
    for node in types:
        if isinstance(node, ast.ClassDef):
            members = vars(getattr(native, node.name))
            special = {"__len__", "__getitem__", "__setitem__"}
            public = {name for name in members if name[0] != "_" or name in special}
            assert names(node.body) - {"__init__"} == public, node.name


@pytest.mark.parametrize("value", [None, "0", b"1", 1.5, [], ...], ids=repr)
def test_an_argument_of_another_type_is_a_type_error(nanobind: Provider, value: object):
    request = nanobind.LlmRequest(5, range(10))
    manager = nanobind.KVCacheManager(9, rng=random.Random(1))
    calls = [
        lambda: request.get_num_tokens(value),
        lambda: request.get_tokens(value),
        lambda: request.get_token(0, value),
        lambda: request.get_tokens_range(0, value, 1),
        lambda: request.get_tokens_range(0, 0, value),
        lambda: request.get_tokens_view(value),
        lambda: request.add_new_token(value, 0),
        lambda: request.pause(value),
        lambda: setattr(request, "context_chunk_size", value),
        lambda: setattr(request, "context_current_position", value),
        lambda: setattr(request, "request_id", value),
        lambda: setattr(request, "state", value),
        lambda: setattr(request, "is_dummy_request", value),
        lambda: manager.get_priority_by_block_id(value),
        lambda: manager.get_cache_indices(value),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**30, -(10**30)])
def test_an_int_that_no_native_type_holds_is_a_type_error(nanobind: Provider, value: int):
    request = nanobind.LlmRequest(5, range(10))
    for call in (
        lambda: request.get_num_tokens(value),
        lambda: request.get_tokens_range(0, value, 1),
        lambda: request.get_tokens_range(0, 0, value),
        lambda: request.pause(value),
        lambda: nanobind.LlmRequest(value, [1]),
    ):
        with pytest.raises(TypeError):
            call()
    for narrow in (2**31, -(2**31) - 1):
        for call in (
            lambda x: request.add_new_token(x, 0),
            lambda x: setattr(request, "context_current_position", x),
        ):
            with pytest.raises(TypeError):
                call(narrow)
    assert request.get_tokens(0) == list(range(10))


def test_what_upstream_does_not_let_be_set_cannot_be_set(nanobind: Provider):
    request = nanobind.LlmRequest(5, range(10))
    for name in ("prompt_len", "context_remaining_length", "kv_cache_retention_config"):
        with pytest.raises(AttributeError):
            setattr(request, name, 1)


def test_a_manager_takes_no_request_of_another_provider(nanobind: Provider):
    request = PythonRequest(5, range(10))
    v1 = nanobind.KVCacheManager(9, rng=random.Random(1))
    v2 = nanobind.KVCacheManagerV2(9, rng=random.Random(1))
    v1.resize(request, 0)
    for call in (
        lambda: v1.resize(request, 10),
        lambda: v1.get_cache_indices(request),
        lambda: v1.get_batch_updates([request], [0], [0], [0], [0]),
        lambda: v2.get_num_blocks(request),
        lambda: v2.get_batch_updates([request], [0], [0]),
    ):
        with pytest.raises(TypeError):
            call()


def test_a_batch_holds_no_none(nanobind: Provider):
    v1 = nanobind.KVCacheManager(9, rng=random.Random(1))
    v2 = nanobind.KVCacheManagerV2(9, rng=random.Random(1))
    with pytest.raises(TypeError, match="a batch holds requests, and nothing else"):
        v1.get_batch_updates([None], [0], [0], [0], [0])
    with pytest.raises(TypeError, match="a batch holds requests, and nothing else"):
        v2.get_batch_updates([None], [0], [0])


def test_a_state_is_a_member_of_the_enum(nanobind: Provider, native: ModuleType):
    request = nanobind.LlmRequest(5, range(10))
    with pytest.raises(TypeError, match="state must be a member of LlmRequestState"):
        request.state = "CONTEXT_INIT"
    assert request.state is LlmRequestState.CONTEXT_INIT
    assert tuple(state.name for state in LlmRequestState) == native.REQUEST_STATES
    with pytest.raises(ValueError, match="there must be a member for each request state"):
        native.set_request_states([LlmRequestState.CONTEXT_INIT])
    assert request.state is LlmRequestState.CONTEXT_INIT


@pytest.mark.usefixtures("nanobind")
def test_a_state_before_the_members_are_known_is_an_error():
    script = """
        import stepbench_native
        request = stepbench_native.LlmRequest(1, [1], 1, None)
        try:
            request.state
        except RuntimeError as error:
            print(error)
    """
    done = run(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "set_request_states() was never called\n"


def test_a_request_that_was_never_initialised_is_an_error(nanobind: Provider):
    request = nanobind.LlmRequest.__new__(nanobind.LlmRequest)
    with pytest.warns(RuntimeWarning, match="uninitialized"), pytest.raises(TypeError):
        request.get_num_tokens(0)


def test_reports_that_no_manager_made_are_an_error(nanobind: Provider, native: ModuleType):
    reported = native.ReportedRequests.__new__(native.ReportedRequests)
    held: list[object] = [reported]
    held.append(held)  # A cycle, so that the collector looks at it and clears it.
    v2 = nanobind.KVCacheManagerV2(9, rng=random.Random(1))
    with pytest.warns(RuntimeWarning, match="uninitialized"), pytest.raises(TypeError):
        v2.build_request_data(reported, [], [], [], {}, {})
    del held, reported
    gc.collect()


def test_a_request_is_initialised_once(nanobind: Provider):
    request = nanobind.LlmRequest(5, range(10))
    with pytest.warns(RuntimeWarning, match="already-initialized"), pytest.raises(TypeError):
        request.__init__(6, range(20))
    assert (request.request_id, request.get_tokens(0)) == (5, list(range(10)))


def test_a_request_that_failed_to_initialise_is_an_error(nanobind: Provider):
    request = nanobind.LlmRequest.__new__(nanobind.LlmRequest)
    with pytest.raises(ValueError, match="at least one prompt token"):
        request.__init__(1, [])
    with pytest.warns(RuntimeWarning, match="uninitialized"), pytest.raises(TypeError):
        request.get_num_tokens(0)


def test_a_table_outlives_its_cache(nanobind: Provider):
    manager = nanobind.KVCacheManagerV2(9, tokens_per_block=4, rng=random.Random(1))
    request = nanobind.LlmRequest(5, range(10))
    manager.resize(request, 10)
    (table,) = manager.kv_cache_map[5].tables
    pages = [table[ordinal] for ordinal in range(3)]
    assert [pages] == manager.get_page_indices_by_layer_group(request)
    kv_cache = manager.kv_cache_map[5]
    manager.free_resources(request)
    del manager
    assert kv_cache.num_blocks == len(table) == 0
    del kv_cache
    table.append(7)
    assert (len(table), table.pop()) == (1, 7)


def test_a_table_refuses_what_is_outside_it(native: ModuleType):
    (table,) = native.KvCache(1).tables
    table.append(3)
    for ordinal in (-1, 1, 2**40):
        with pytest.raises(IndexError):
            table[ordinal]
        with pytest.raises(IndexError):
            table[ordinal] = 1
    with pytest.raises(TypeError):
        table.append(2**31)
    table.pop()
    with pytest.raises(IndexError):
        table.pop()


def test_a_cache_fits_its_manager(native: ModuleType):
    manager = native.KvCacheManagerV2(4, [native.LayerGroup(None, 0), native.LayerGroup(8, 0)])
    with pytest.raises(ValueError, match="a table for each layer group"):
        manager.add(1, native.KvCache(1))
    with pytest.raises(TypeError):
        manager.add(1, None)
    for groups in (0, -1, 2**40):
        with pytest.raises(ValueError, match=f"1 to 1024 layer groups, not {groups}"):
            native.KvCache(groups)
    with pytest.raises(IndexError, match=r"layer group 1 is outside \[0, 1\)"):
        native.KvCache(1).get_aggregated_page_indices(1)
    with pytest.raises(ValueError, match="history_length must not be negative, not -1"):
        native.KvCache(1).history_length = -1


@pytest.mark.parametrize("size", [0, -1])
def test_a_block_holds_a_token(native: ModuleType, size: int):
    for make in (
        lambda: native.KvCacheManagerV1(size),
        lambda: native.KvCacheManagerV2(size, [native.LayerGroup(None, 0)]),
    ):
        with pytest.raises(ValueError, match=f"tokens_per_block must be at least 1, not {size}"):
            make()


def test_native_calls_have_no_python_frame(nanobind: Provider):
    v1 = nanobind.KVCacheManager(9, rng=random.Random(1))
    v2 = nanobind.KVCacheManagerV2(9, layer_groups=[LayerGroup()], rng=random.Random(1))
    request = nanobind.LlmRequest(5, range(10))
    v2.resize(request, 10)
    native_calls = [
        *(request.get_num_tokens, request.get_tokens, request.get_tokens_range),
        *(v1.get_cache_indices, v1.get_priority_by_block_id, v1.get_cache_indices_range),
        *(v1.get_block_hashes_after, v1.get_batch_updates, v1.get_num_blocks),
        *(v2.get_num_blocks, v2.get_page_indices_range, v2.get_batch_updates),
        *(v1.create_reported_requests, v1.build_request_data),
        *(v2.create_reported_requests, v2.build_request_data),
        v2.kv_cache_map[5].get_aggregated_page_indices,
    ]
    for call in native_calls:
        assert not inspect.ismethod(call), call
    assert inspect.ismethod(v1.commit_and_get_block_hashes)  # Upstream builds the list twice.
    assert inspect.ismethod(v2.get_page_indices_by_layer_group)


# Objects of every kind, alive when the interpreter ends, some of them in a cycle.
ALIVE_AT_EXIT = """
    import random
    from connector.data import RequestData
    from stubs.kv_cache_v2 import LayerGroup
    from stubs.providers import load_provider
    from stubs.request import KvCacheRetentionConfig, TokenRangeRetention

    provider = load_provider("nanobind")
    config = KvCacheRetentionConfig([TokenRangeRetention(0, None, 80)])
    requests = [provider.LlmRequest(n, range(10), retention_config=config) for n in range(3)]
    kept = [requests[0].kv_cache_retention_config, requests[0].get_tokens_view(0)]
    for backend in ("list", "generator"):
        v2 = provider.KVCacheManagerV2(
            9, layer_groups=[LayerGroup()] * 2, page_backend=backend, rng=random.Random(1)
        )
        v1 = provider.KVCacheManager(9, rng=random.Random(1))
        for manager in (v1, v2):
            for request in requests:
                manager.resize(request, 10)
            kept.append(manager)
            kept.append(manager.create_reported_requests(RequestData, False))
            kept += manager.build_request_data(kept[-1], requests, [], [], {}, {})
            # Held by what it is to call.
            calling = [manager.create_reported_requests(lambda *_: calling, False)]
            manager.build_request_data(calling[0], requests, [], [], {}, {})
    kept.append(v2.kv_cache_map[0].tables)
    requests[1].itself = requests[1]
    v2.itself = v2
"""


@pytest.mark.usefixtures("nanobind")
def test_nanobind_reports_no_leak_at_exit():
    done = run(ALIVE_AT_EXIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.usefixtures("nanobind")
def test_a_million_calls_leak_nothing():
    done = run("from tests.stubs import million_calls; million_calls.main()")
    assert (done.returncode, done.stderr) == (0, "")
    blocks, resident = map(int, done.stdout.split())
    # 37,000 calls of each kind: had one of them forgotten a single object, or the least that malloc
    # hands out, that would be 37,000 blocks or 1.2 MB.
    assert blocks < 1000
    assert resident < 700_000


def test_requests_that_die_while_a_batch_is_converted_are_no_crash(nanobind: Provider):
    native = nanobind
    manager = native.KVCacheManagerV2(8, rng=random.Random(0))

    class Fresh:
        """A sequence whose requests nobody else holds."""

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> object:
            if index > 1:
                raise IndexError
            return native.LlmRequest(index, range(3))

    lengths, tokens, _ = manager.get_batch_updates(Fresh(), [0, 2], [0, 0])  # type: ignore[arg-type]
    assert (lengths, tokens) == ([3, 3], [[0, 1, 2], [2]])

    requests = [native.LlmRequest(1, range(3))]

    class Dropping:
        """A number that drops the requests while it is converted."""

        def __index__(self) -> int:
            requests.clear()
            return 0

    with pytest.raises(ValueError, match="a batch of 0 requests came with a list of 1"):
        manager.get_batch_updates(requests, [Dropping()], [0])  # type: ignore[list-item]
