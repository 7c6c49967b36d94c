// What Python sees: names, argument types and conversions, as in TensorRT-LLM's own bindings.
//
// A std::vector becomes a new list, one Python int an element. Python subclasses add the attributes
// that upstream keeps in Python, and the allocation of pages: see stubs/nanobind_provider.py.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "batch.hpp"
#include "kv_cache_v1.hpp"
#include "kv_cache_v2.hpp"
#include "request.hpp"
#include "request_data.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepbench {
namespace {

// The members of connector.interfaces.LlmRequestState. Arms tell states apart by identity, so
// Python hands its own members over. They live as long as the process: an array of nb::object would
// be destroyed after the interpreter.
std::array<PyObject *, kNumRequestStates> request_states{};

void set_request_states(const std::vector<nb::object> &members) {
    if (members.size() != request_states.size())
        throw nb::value_error("there must be a member for each request state");
    for (std::size_t i = 0; i < members.size(); ++i) {
        PyObject *before = request_states[i];
        request_states[i] = nb::object(members[i]).release().ptr();
        Py_XDECREF(before);  // Last, since it can run Python code.
    }
}

nb::object get_state(const LlmRequest &request) {
    PyObject *member = request_states[static_cast<std::size_t>(request.state)];
    if (member == nullptr) throw std::runtime_error("set_request_states() was never called");
    return nb::borrow(member);
}

void set_state(LlmRequest &request, nb::handle member) {
    for (std::size_t i = 0; i < request_states.size(); ++i) {
        if (request_states[i] == member.ptr()) {
            request.state = static_cast<RequestState>(i);
            return;
        }
    }
    throw nb::type_error("state must be a member of LlmRequestState");
}

// A view that keeps the tokens alive that it shows.
nb::ndarray<nb::numpy, const Token, nb::ndim<1>> get_tokens_view(const LlmRequest &request,
                                                                 std::int64_t beam) {
    using Owner = std::shared_ptr<const Tokens>;
    auto owner = std::make_unique<Owner>(request.share_tokens(beam));
    const Tokens &tokens = **owner;
    nb::capsule capsule(owner.get(),
                        [](void *pointer) noexcept { delete static_cast<Owner *>(pointer); });
    owner.release();
    return {tokens.data(), {tokens.size()}, capsule};
}

// What build_request_data takes is checked by it; a dict is one, and no other mapping.
template <typename Manager>
void bind_request_data(nb::class_<Manager> &manager) {
    manager
        .def(
            "create_reported_requests",
            [](const Manager &, nb::object new_data, bool skip_dummy_requests) {
                return ReportedRequests(std::move(new_data), skip_dummy_requests);
            },
            "new_data"_a, "skip_dummy_requests"_a)
        .def(
            "build_request_data",
            [](Manager &self, ReportedRequests &reported, nb::object context_requests_chunking,
               nb::object context_requests_last_chunk, nb::object generation_requests,
               nb::object loading, nb::dict external_loads) {
                return build_request_data(
                    self, reported,
                    {std::move(context_requests_chunking), std::move(context_requests_last_chunk),
                     std::move(generation_requests), std::move(loading),
                     std::move(external_loads)});
            },
            "reported"_a, "context_requests_chunking"_a, "context_requests_last_chunk"_a,
            "generation_requests"_a, "loading"_a, "external_loads"_a);
}

void bind_request(nb::module_ &m) {
    nb::list names;
    for (std::size_t i = 0; i < kNumRequestStates; ++i)
        names.append(name_of(static_cast<RequestState>(i)));
    m.attr("REQUEST_STATES") = nb::tuple(names);
    m.def("set_request_states", &set_request_states, "members"_a,
          "Take the members of LlmRequestState, in the order of REQUEST_STATES. Requests hand out\n"
          "these very objects and accept no others.");

    nb::class_<TokenRangeRetention>(m, "TokenRangeRetention",
                                    "Retention priority of prompt tokens; no end means the rest.")
        .def(nb::init<std::int64_t, std::optional<std::int64_t>, std::int32_t>(), "begin"_a,
             "end"_a.none(), "priority"_a)
        .def_rw("begin", &TokenRangeRetention::begin)
        .def_rw("end", &TokenRangeRetention::end, nb::for_setter(nb::arg().none()))
        .def_rw("priority", &TokenRangeRetention::priority);

    // All by value: a reference into a vector would dangle once the vector changes.
    nb::class_<KvCacheRetentionConfig>(m, "KvCacheRetentionConfig",
                                       "How long the blocks of a request should stay.")
        .def(nb::init<std::vector<TokenRangeRetention>, std::int32_t>(), "ranges"_a,
             "decode_priority"_a)
        .def_prop_rw(
            "ranges", [](const KvCacheRetentionConfig &config) { return config.ranges; },
            [](KvCacheRetentionConfig &config, std::vector<TokenRangeRetention> ranges) {
                config.ranges = std::move(ranges);
            })
        .def_rw("decode_priority", &KvCacheRetentionConfig::decode_priority);

    nb::class_<LlmRequest>(m, "LlmRequest", "One request with its tokens.")
        .def(nb::init<std::int64_t, Tokens, std::int64_t, std::optional<KvCacheRetentionConfig>>(),
             "request_id"_a, "prompt"_a, "beam_width"_a, "retention_config"_a.none())
        .def_rw("request_id", &LlmRequest::request_id)
        .def_prop_rw("state", &get_state, &set_state)
        .def_rw("is_dummy_request", &LlmRequest::is_dummy_request)
        .def("get_num_tokens", &LlmRequest::num_tokens, "beam"_a)
        .def("get_tokens", &LlmRequest::tokens, "beam"_a)
        .def("get_tokens", &LlmRequest::all_tokens)
        .def("get_token", &LlmRequest::token, "beam"_a, "pos"_a)
        .def("get_tokens_range", &LlmRequest::tokens_range, "beam"_a, "begin"_a, "end"_a)
        .def("get_tokens_view", &get_tokens_view, "beam"_a)
        .def("add_new_token", &LlmRequest::add_new_token, "token"_a, "beam"_a)
        .def("pause", &LlmRequest::pause, "max_input_len"_a)
        .def_prop_ro("prompt_len", &LlmRequest::prompt_len)
        .def_prop_rw("context_current_position", &LlmRequest::context_current_position,
                     &LlmRequest::set_context_current_position)
        .def_prop_ro("context_remaining_length", &LlmRequest::context_remaining_length)
        .def_prop_rw("context_chunk_size", &LlmRequest::context_chunk_size,
                     &LlmRequest::set_context_chunk_size)
        .def("move_to_next_context_chunk", &LlmRequest::move_to_next_context_chunk)
        .def_prop_ro("kv_cache_retention_config", &LlmRequest::retention_config);
}

void bind_pages(nb::module_ &m) {
    const auto at = [](auto &table, std::int64_t ordinal) -> auto & {
        if (ordinal < 0 || ordinal >= table.size()) throw nb::index_error("no such block");
        return table.pages[static_cast<std::size_t>(ordinal)];
    };
    nb::class_<PageTable>(m, "PageTable", "The pages of a sequence, for whoever allocates them.")
        .def("__len__", &PageTable::size)
        .def(
            "__getitem__",
            [at](const PageTable &table, std::int64_t ordinal) -> Page {
                return at(table, ordinal);
            },
            "ordinal"_a)
        .def(
            "__setitem__",
            [at](PageTable &table, std::int64_t ordinal, Page page) { at(table, ordinal) = page; },
            "ordinal"_a, "page"_a)
        .def(
            "append", [](PageTable &table, Page page) { table.pages.push_back(page); }, "page"_a)
        .def("pop", [at](PageTable &table) {
            const Page page = at(table, table.size() - 1);
            table.pages.pop_back();
            return page;
        });
}

void bind_v2(nb::module_ &m) {
    nb::class_<LayerGroup>(m, "LayerGroup", "Window, None for full attention, and sink tokens.")
        .def(nb::init<std::optional<std::int32_t>, std::int32_t>(), "window"_a.none(),
             "sink_tokens"_a);

    nb::class_<KvCache>(m, "KvCache", "The pages of one request, a table per layer group.")
        .def(nb::init<std::int64_t>(), "num_layer_groups"_a)
        .def_prop_rw("history_length", &KvCache::history_length, &KvCache::set_history_length)
        .def_prop_ro("num_blocks", &KvCache::num_blocks)
        .def_prop_ro(
            "tables",
            [](KvCache &kv_cache) {
                std::vector<PageTable *> tables;
                for (PageTable &table : kv_cache.tables()) tables.push_back(&table);
                return tables;
            },
            nb::rv_policy::reference_internal)
        .def("get_aggregated_page_indices", &KvCache::aggregated_page_indices, "layer_group"_a,
             "valid_only"_a = false);

    using Manager = KvCacheManagerV2;
    nb::class_<Manager> manager(m, "KvCacheManagerV2", "Page tables of all requests.");
    manager
        .def(nb::init<std::int32_t, std::vector<LayerGroup>>(), "tokens_per_block"_a,
             "layer_groups"_a)
        .def("add", &Manager::add, "request_id"_a, "kv_cache"_a)
        .def("remove", &Manager::remove, "request_id"_a)
        .def("get_num_blocks", &Manager::num_blocks, "request"_a)
        .def("get_page_indices_range", &Manager::page_indices_range, "request"_a, "begin"_a)
        .def(
            "get_batch_updates",
            [](const Manager &manager, const nb::object &requests,
               const std::vector<std::int64_t> &num_tokens,
               const std::vector<std::int64_t> &num_blocks) {
                return manager.batch_updates(Batch(requests).requests(), num_tokens, num_blocks);
            },
            "requests"_a, "num_tokens"_a, "num_blocks"_a);
    bind_request_data(manager);
}

void bind_v1(nb::module_ &m) {
    nb::register_exception_translator([](const std::exception_ptr &error, void *) {
        try {
            std::rethrow_exception(error);
        } catch (const UnknownRequest &unknown) {
            PyErr_SetString(PyExc_KeyError, unknown.what());
        }
    });

    using Manager = KvCacheManagerV1;
    nb::class_<Manager> manager(m, "KvCacheManagerV1",
                                "Blocks, hashes and priorities of all requests.");
    manager
        .def(nb::init<std::int32_t>(), "tokens_per_block"_a)
        .def("admit", &Manager::admit, "request_id"_a)
        .def("add_block", &Manager::add_block, "request"_a, "block"_a)
        .def("truncate", &Manager::truncate, "request_id"_a, "num_blocks"_a)
        .def("release", &Manager::release, "request_id"_a)
        .def("get_cache_indices", &Manager::cache_indices, "request"_a)
        .def("commit_and_get_block_hashes", &Manager::commit_and_get_block_hashes, "request"_a)
        .def("get_priority_by_block_id", &Manager::priority_by_block_id, "block_id"_a)
        .def("get_num_blocks", &Manager::num_blocks, "request"_a)
        .def("get_cache_indices_range", &Manager::cache_indices_range, "request"_a, "begin"_a)
        .def("get_block_hashes_after", &Manager::block_hashes_after, "request"_a, "count"_a,
             "last"_a)
        .def(
            "get_batch_updates",
            [](Manager &manager, const nb::object &requests,
               const std::vector<std::int64_t> &num_tokens,
               const std::vector<std::int64_t> &num_blocks,
               const std::vector<std::int64_t> &num_hashes,
               const std::vector<BlockHash> &last_hashes) {
                return manager.batch_updates(Batch(requests).requests(), num_tokens, num_blocks,
                                             num_hashes, last_hashes);
            },
            "requests"_a, "num_tokens"_a, "num_blocks"_a, "num_hashes"_a, "last_hashes"_a);
    bind_request_data(manager);
}

}  // namespace

NB_MODULE(stepbench_native, m) {
    m.doc() = "The native side of stepbench's stand-ins.";
    bind_request(m);
    bind_pages(m);
    bind_reported_requests(m);
    bind_v2(m);
    bind_v1(m);
}

}  // namespace stepbench
