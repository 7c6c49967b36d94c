// The V1 KV cache manager: one flat space of block ids, with hashes and priorities.

#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pages.hpp"
#include "request.hpp"

namespace stepbench {

using BlockHash = std::uint64_t;

// A request that the manager does not know; the binding turns it into a KeyError.
class UnknownRequest : public std::runtime_error {
public:
    explicit UnknownRequest(std::int64_t request_id);
};

class KvCacheManagerV1 {
public:
    explicit KvCacheManagerV1(std::int32_t tokens_per_block);

    // Allocation, driven by Python code that all providers share.

    // Admit a request; return how many blocks it holds.
    std::int64_t admit(std::int64_t request_id);
    // Append a block, with the priority that the request's retention config gives it.
    void add_block(const LlmRequest &request, Page block);
    // Drop the blocks from ordinal `num_blocks` on, with their hashes and priorities; return them.
    std::vector<Page> truncate(std::int64_t request_id, std::int64_t num_blocks);
    // Forget a request; return its blocks, none where it is unknown.
    std::vector<Page> release(std::int64_t request_id);

    // As in connector.interfaces.KVCacheManager and ExtendedKVCacheManager.

    const std::vector<Page> &cache_indices(const LlmRequest &request) const;
    std::vector<BlockHash> commit_and_get_block_hashes(const LlmRequest &request);
    std::int32_t priority_by_block_id(Page block) const;
    std::int64_t num_blocks(const LlmRequest &request) const;
    std::vector<Page> cache_indices_range(const LlmRequest &request, std::int64_t begin) const;
    std::pair<std::int64_t, std::vector<BlockHash>> block_hashes_after(const LlmRequest &request,
                                                                       std::int64_t count,
                                                                       BlockHash last);
    std::tuple<std::vector<std::int64_t>, std::vector<Tokens>, std::vector<std::vector<Page>>,
               std::vector<std::int64_t>, std::vector<std::vector<BlockHash>>>
    batch_updates(const std::vector<const LlmRequest *> &requests,
                  const std::vector<std::int64_t> &num_tokens,
                  const std::vector<std::int64_t> &num_blocks,
                  const std::vector<std::int64_t> &num_hashes,
                  const std::vector<BlockHash> &last_hashes);

private:
    struct Sequence {
        PageTable blocks;
        std::vector<BlockHash> hashes;
    };

    std::vector<Page> cut(Sequence &sequence, std::int64_t num_blocks);
    // Commit the hashes of blocks that became full; return the number of full blocks. A hash that
    // is committed stays, also while a rewound sequence does not fill its block.
    std::size_t commit(const LlmRequest &request, Sequence &sequence);

    std::int64_t tokens_per_block_;
    std::unordered_map<std::int64_t, Sequence> sequences_;
    std::unordered_map<Page, std::int32_t> priorities_;
};

}  // namespace stepbench
