// The V2 KV cache manager: page tables by request and layer group.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "pages.hpp"
#include "request.hpp"

namespace stepbench {

// Layers that share a page table. Sizes in tokens; no window means full attention.
struct LayerGroup {
    std::optional<std::int32_t> window;
    std::int32_t sink_tokens;
};

// The pages of one request, a table for each layer group.
class KvCache {
public:
    explicit KvCache(std::int64_t num_layer_groups);

    // Tokens whose KV is computed.
    std::int64_t history_length() const { return history_length_; }
    void set_history_length(std::int32_t history_length);

    // Block ordinals, those without a page included.
    std::int64_t num_blocks() const { return tables_.front().size(); }
    std::size_t num_layer_groups() const { return tables_.size(); }

    // The tables, for whoever allocates.
    std::vector<PageTable> &tables() { return tables_; }

    // The pages of a layer group in block order.
    std::vector<Page> aggregated_page_indices(std::int64_t layer_group, bool valid_only) const;

    // The pages of a layer group from block `begin` on, -1 where no coming token reads them.
    std::vector<Page> masked_page_indices(std::size_t layer_group, std::int64_t begin,
                                          const LayerGroup &group,
                                          std::int64_t tokens_per_block) const;

private:
    std::vector<PageTable> tables_;
    std::int64_t history_length_ = 0;
};

class KvCacheManagerV2 {
public:
    using PageLists = std::vector<std::vector<Page>>;

    KvCacheManagerV2(std::int32_t tokens_per_block, std::vector<LayerGroup> layer_groups);

    // Admit a request with its pages, and forget it.
    void add(std::int64_t request_id, std::shared_ptr<KvCache> kv_cache);
    void remove(std::int64_t request_id) { kv_caches_.erase(request_id); }

    // As in connector.interfaces.KVCacheManagerV2: a request that holds no cache has no blocks.
    std::int64_t num_blocks(const LlmRequest &request) const;
    PageLists page_indices_range(const LlmRequest &request, std::int64_t begin) const;
    std::tuple<std::vector<std::int64_t>, std::vector<Tokens>, std::vector<PageLists>>
    batch_updates(const std::vector<const LlmRequest *> &requests,
                  const std::vector<std::int64_t> &num_tokens,
                  const std::vector<std::int64_t> &num_blocks) const;

private:
    const KvCache *find(const LlmRequest &request) const;

    std::int64_t tokens_per_block_;
    std::vector<LayerGroup> layer_groups_;
    std::unordered_map<std::int64_t, std::shared_ptr<KvCache>> kv_caches_;
};

}  // namespace stepbench
