// What Python is told of a batch, built on the native side: see connector/native_output.py.

#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <unordered_map>

#include "kv_cache_v1.hpp"
#include "kv_cache_v2.hpp"

namespace stepbench {

// How much of one request was reported. Neither count ever goes down.
struct Reported {
    std::int64_t num_tokens = 0;
    std::int64_t num_blocks = 0;
    // V1: the hash chain as Python ints, so that those that were reported before are not made again.
    // Null for an empty one. Never changed in place, and never handed out.
    nanobind::object block_hashes;
    BlockHash last_hash = 0;

    std::int64_t num_hashes() const;
};

// What of each request was reported so far.
class ReportedRequests {
public:
    ReportedRequests(nanobind::object new_data, bool skip_dummy_requests);

    void forget(std::int64_t request_id) { by_id.erase(request_id); }

    // What makes the data of a request: a Python class, called with its fields by position.
    nanobind::object new_data;
    bool skip_dummy_requests;
    std::unordered_map<std::int64_t, Reported> by_id;
};

// The arguments of build_request_data, as in connector.interfaces.
struct Scheduled {
    nanobind::object context_requests_chunking, context_requests_last_chunk, generation_requests;
    nanobind::object loading;
    nanobind::dict external_loads;
};

nanobind::tuple build_request_data(const KvCacheManagerV2 &manager, ReportedRequests &reported,
                                   const Scheduled &scheduled);
nanobind::tuple build_request_data(KvCacheManagerV1 &manager, ReportedRequests &reported,
                                   const Scheduled &scheduled);

void bind_reported_requests(nanobind::module_ &m);

}  // namespace stepbench
