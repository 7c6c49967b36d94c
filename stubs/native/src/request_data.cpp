#include "request_data.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "batch.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepbench {

namespace {

// Building a Python object can run any code: a constructor, or what the garbage collector frees. So
// a report comes in three steps. All that the native side knows is read first, and copied; then the
// objects are built; what was reported is noted last, when nothing can fail any more.

// A request of the report.
struct Entry {
    nb::handle object;
    const LlmRequest *request;
    // As it was before this report.
    std::int64_t request_id;
    Reported seen;
    bool is_new;
    std::int64_t external;
};

// The batch, kept alive, and those of it that are in the report.
struct Batches {
    Batch chunking, last_chunk, generation;
    std::vector<Entry> entries;

    std::vector<const LlmRequest *> requests() const {
        std::vector<const LlmRequest *> all;
        all.reserve(entries.size());
        for (const Entry &entry : entries) all.push_back(entry.request);
        return all;
    }
    template <typename Field>
    auto each(Field field) const {
        std::vector<decltype(field(Reported{}))> all;
        all.reserve(entries.size());
        for (const Entry &entry : entries) all.push_back(field(entry.seen));
        return all;
    }
};

bool contains(nb::handle container, nb::handle key) {
    const int found = PySequence_Contains(container.ptr(), key.ptr());
    if (found < 0) throw nb::python_error();
    return found == 1;
}

// How many tokens of a request the connector is about to load.
std::int64_t external_load(const nb::dict &external_loads, nb::handle request_id) {
    PyObject *found = PyDict_GetItemWithError(external_loads.ptr(), request_id.ptr());
    if (found == nullptr) {
        if (PyErr_Occurred()) throw nb::python_error();
        return 0;
    }
    std::int32_t tokens = 0;
    if (!nb::try_cast(nb::borrow(found), tokens))
        throw nb::type_error("external_loads: a number of tokens is an int of 32 bits");
    return tokens;
}

Batches read_batch(const ReportedRequests &reported, const Scheduled &scheduled) {
    Batches batches{Batch(scheduled.context_requests_chunking),
                    Batch(scheduled.context_requests_last_chunk),
                    Batch(scheduled.generation_requests),
                    {}};
    std::vector<Entry> &entries = batches.entries;
    entries.reserve(batches.chunking.requests().size() + batches.last_chunk.requests().size() +
                    batches.generation.requests().size());
    const auto add = [&](const Batch &batch, bool is_context) {
        for (std::size_t i = 0; i < batch.requests().size(); ++i) {
            const LlmRequest *request = batch.requests()[i];
            if (reported.skip_dummy_requests && request->is_dummy_request) continue;
            std::int64_t external = 0;
            if (is_context) {
                const nb::object request_id = nb::cast(request->request_id);
                if (contains(scheduled.loading, request_id)) continue;
                external = external_load(scheduled.external_loads, request_id);
            }
            entries.push_back({batch.object(i), request, request->request_id, {}, is_context, external});
        }
    };
    add(batches.chunking, true);
    add(batches.last_chunk, true);
    add(batches.generation, false);
    // Only now, when no Python code runs before the managers are read.
    for (Entry &entry : entries) {
        const auto found = reported.by_id.find(entry.request_id);
        if (found == reported.by_id.end()) continue;
        entry.seen = found->second;
        entry.is_new = false;
    }
    return batches;
}

// Names of attributes that upstream keeps in Python. They live as long as the process.
nb::object attribute(nb::handle request, PyObject *&name, const char *text) {
    if (name == nullptr && (name = PyUnicode_InternFromString(text)) == nullptr)
        throw nb::python_error();
    return nb::getattr(request, nb::handle(name));
}

nb::object cache_salt(nb::handle request) {
    static PyObject *name = nullptr;
    return attribute(request, name, "cache_salt");
}

std::int64_t draft_length(nb::handle request) {
    static PyObject *name = nullptr;
    const nb::object draft_tokens = attribute(request, name, "py_draft_tokens");
    return draft_tokens.is_none() ? 0 : static_cast<std::int64_t>(nb::len(draft_tokens));
}

// What a report says of the blocks of a request.
struct Blocks {
    std::int64_t count;
    nb::object ids, hashes, priorities, by_layer_group;
};

// Build the data of all entries, and note them as reported.
//
// `blocks(i)` returns what is new of the blocks of entry i, and `note(i, reported)` what the manager
// alone knows of it.
template <typename NewBlocks, typename Note>
std::pair<nb::list, nb::list> build(ReportedRequests &reported, const Batches &batches,
                                    const std::vector<std::int64_t> &lengths,
                                    const std::vector<Tokens> &tokens, NewBlocks blocks,
                                    Note note) {
    nb::list first_reports, others;
    std::vector<std::int64_t> counts;
    counts.reserve(lengths.size());
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        const Entry &entry = batches.entries[i];
        std::int64_t position = lengths[i] - 1, scheduled = 1;
        if (entry.request->in_context_phase()) {
            position = entry.request->context_current_position();
            scheduled = std::min(entry.request->context_remaining_length(),
                                 entry.request->context_chunk_size());
        } else {
            scheduled += draft_length(entry.object);
        }
        Blocks parts = blocks(i);
        counts.push_back(parts.count);
        // A vectorcall.
        nb::object data = reported.new_data(
            entry.request_id, nb::cast(tokens[i]), std::move(parts.ids), position - entry.external,
            scheduled, std::move(parts.hashes), std::move(parts.priorities),
            cache_salt(entry.object), std::move(parts.by_layer_group));
        (entry.is_new ? first_reports : others).append(std::move(data));
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const Entry &entry = batches.entries[i];
        Reported &now = reported.by_id[entry.request_id];
        now.num_tokens = entry.seen.num_tokens + static_cast<std::int64_t>(tokens[i].size());
        now.num_blocks = entry.seen.num_blocks + counts[i];
        note(i, now);
    }
    return {std::move(first_reports), std::move(others)};
}

// A new list of the hashes that still hold, and of those after them.
nb::object extended(const nb::object &known, std::int64_t valid,
                    const std::vector<BlockHash> &new_hashes) {
    nb::list chain = known.is_valid() ? nb::steal<nb::list>(PyList_GetSlice(known.ptr(), 0, valid))
                                      : nb::list();
    if (!chain.is_valid()) throw nb::python_error();
    for (BlockHash hash : new_hashes) chain.append(hash);
    return chain;
}

nb::object copied(const nb::object &chain) {
    if (!chain.is_valid()) return nb::list();
    nb::object copy = nb::steal(PyList_GetSlice(chain.ptr(), 0, PyList_GET_SIZE(chain.ptr())));
    if (!copy.is_valid()) throw nb::python_error();
    return copy;
}

int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    const auto *reported = nb::inst_ptr<ReportedRequests>(self);
    Py_VISIT(reported->new_data.ptr());
    for (const auto &[request_id, of_one] : reported->by_id) Py_VISIT(of_one.block_hashes.ptr());
    return 0;
}

int clear(PyObject *self) {
    if (!nb::inst_ready(self)) return 0;
    // Moved out first: what is freed can run Python code, which may look at this object.
    auto *reported = nb::inst_ptr<ReportedRequests>(self);
    const nb::object new_data = std::exchange(reported->new_data, nb::none());
    const auto by_id = std::exchange(reported->by_id, {});
    return 0;
}

}  // namespace

std::int64_t Reported::num_hashes() const {
    return block_hashes.is_valid() ? PyList_GET_SIZE(block_hashes.ptr()) : 0;
}

ReportedRequests::ReportedRequests(nb::object new_data, bool skip_dummy_requests)
    : new_data(std::move(new_data)), skip_dummy_requests(skip_dummy_requests) {}

nb::tuple build_request_data(const KvCacheManagerV2 &manager, ReportedRequests &reported,
                             const Scheduled &scheduled) {
    const Batches batches = read_batch(reported, scheduled);
    const auto [lengths, tokens, pages] = manager.batch_updates(
        batches.requests(), batches.each([](const Reported &seen) { return seen.num_tokens; }),
        batches.each([](const Reported &seen) { return seen.num_blocks; }));
    const bool ignored = std::any_of(
        batches.entries.begin(), batches.entries.end(),
        [](const Entry &entry) { return entry.request->has_retention_config(); });
    const auto blocks = [&pages = pages](std::size_t i) -> Blocks {
        const KvCacheManagerV2::PageLists &groups = pages[i];
        nb::object by_layer_group = nb::cast(groups);
        // The list of a single group is the flat one as well.
        nb::object ids = groups.size() == 1 ? by_layer_group[0] : nb::object(nb::list());
        return {static_cast<std::int64_t>(groups.front().size()), std::move(ids), nb::list(),
                nb::none(), std::move(by_layer_group)};
    };
    auto [first_reports, others] = build(reported, batches, lengths, tokens, blocks,
                                         [](std::size_t, Reported &) {});
    return nb::make_tuple(first_reports, others, ignored);
}

nb::tuple build_request_data(KvCacheManagerV1 &manager, ReportedRequests &reported,
                             const Scheduled &scheduled) {
    const Batches batches = read_batch(reported, scheduled);
    const auto [lengths, tokens, new_blocks, valid, hashes] = manager.batch_updates(
        batches.requests(), batches.each([](const Reported &seen) { return seen.num_tokens; }),
        batches.each([](const Reported &seen) { return seen.num_blocks; }),
        batches.each([](const Reported &seen) { return seen.num_hashes(); }),
        batches.each([](const Reported &seen) { return seen.last_hash; }));
    std::vector<nb::object> chains(lengths.size());
    const auto blocks = [&, &new_blocks = new_blocks, &valid = valid,
                         &hashes = hashes](std::size_t i) -> Blocks {
        const Entry &entry = batches.entries[i];
        const bool unchanged = valid[i] == entry.seen.num_hashes() && hashes[i].empty();
        chains[i] = unchanged ? entry.seen.block_hashes
                              : extended(entry.seen.block_hashes, valid[i], hashes[i]);
        nb::object priorities = nb::none();
        if (entry.request->has_retention_config()) {
            nb::list each;
            for (Page block : new_blocks[i]) each.append(manager.priority_by_block_id(block));
            priorities = std::move(each);
        }
        return {static_cast<std::int64_t>(new_blocks[i].size()), nb::cast(new_blocks[i]),
                copied(chains[i]), std::move(priorities), nb::list()};
    };
    const auto note = [&, &hashes = hashes](std::size_t i, Reported &now) {
        now.last_hash = hashes[i].empty() ? batches.entries[i].seen.last_hash : hashes[i].back();
        // Last: what it replaces is freed.
        now.block_hashes = std::move(chains[i]);
    };
    auto [first_reports, others] = build(reported, batches, lengths, tokens, blocks, note);
    return nb::make_tuple(first_reports, others, false);
}

void bind_reported_requests(nb::module_ &m) {
    static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void *>(&traverse)},
                                  {Py_tp_clear, reinterpret_cast<void *>(&clear)},
                                  {0, nullptr}};
    nb::class_<ReportedRequests>(m, "ReportedRequests", nb::type_slots(slots),
                                 "What of each request was reported so far.")
        .def("forget", &ReportedRequests::forget, "request_id"_a);
}

}  // namespace stepbench
