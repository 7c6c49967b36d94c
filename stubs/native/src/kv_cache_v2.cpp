#include "kv_cache_v2.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

namespace stepbench {

namespace {

struct StaleRange {
    std::int64_t begin, end;
};

// The ordinals of the blocks that no coming token attends to, from upstream's attention life cycle.
StaleRange stale_range(const LayerGroup &group, std::int64_t history,
                       std::int64_t tokens_per_block) {
    const auto blocks_for = [&](std::int64_t tokens) {
        return (tokens + tokens_per_block - 1) / tokens_per_block;
    };
    const std::int64_t begin = std::min(blocks_for(history), blocks_for(group.sink_tokens));
    if (!group.window) return {begin, begin};
    // Before the window leaves the first block the dividend is negative, and the maximum hides that
    // it is not rounded down.
    return {begin, std::max(begin, (history + 1 - *group.window) / tokens_per_block)};
}

}  // namespace

KvCache::KvCache(std::int64_t num_layer_groups) {
    if (num_layer_groups < 1 || num_layer_groups > 1024)
        throw std::invalid_argument("a cache has 1 to 1024 layer groups, not " +
                                    std::to_string(num_layer_groups));
    tables_.resize(static_cast<std::size_t>(num_layer_groups));
}

void KvCache::set_history_length(std::int32_t history_length) {
    if (history_length < 0)
        throw std::invalid_argument("history_length must not be negative, not " +
                                    std::to_string(history_length));
    history_length_ = history_length;
}

std::vector<Page> KvCache::aggregated_page_indices(std::int64_t layer_group,
                                                   bool valid_only) const {
    if (layer_group < 0 || layer_group >= static_cast<std::int64_t>(tables_.size()))
        throw std::out_of_range("layer group " + std::to_string(layer_group) +
                                " is outside [0, " + std::to_string(tables_.size()) + ")");
    const std::vector<Page> &pages = tables_[static_cast<std::size_t>(layer_group)].pages;
    if (!valid_only) return pages;
    std::vector<Page> valid;
    std::copy_if(pages.begin(), pages.end(), std::back_inserter(valid),
                 [](Page page) { return page != kBadPageIndex; });
    return valid;
}

std::vector<Page> KvCache::masked_page_indices(std::size_t layer_group, std::int64_t begin,
                                               const LayerGroup &group,
                                               std::int64_t tokens_per_block) const {
    const PageTable &table = tables_[layer_group];
    begin = std::clamp<std::int64_t>(begin, 0, table.size());
    std::vector<Page> indices = tail(table.pages, begin);
    const StaleRange stale = stale_range(group, history_length_, tokens_per_block);
    const std::int64_t last = std::min(stale.end, table.size());
    for (std::int64_t ordinal = std::max(begin, stale.begin); ordinal < last; ++ordinal)
        indices[static_cast<std::size_t>(ordinal - begin)] = kBadPageIndex;
    return indices;
}

KvCacheManagerV2::KvCacheManagerV2(std::int32_t tokens_per_block,
                                   std::vector<LayerGroup> layer_groups)
    : tokens_per_block_(checked_tokens_per_block(tokens_per_block)),
      layer_groups_(std::move(layer_groups)) {}

void KvCacheManagerV2::add(std::int64_t request_id, std::shared_ptr<KvCache> kv_cache) {
    if (!kv_cache || kv_cache->num_layer_groups() != layer_groups_.size())
        throw std::invalid_argument("a cache needs a table for each layer group of its manager");
    kv_caches_[request_id] = std::move(kv_cache);
}

std::int64_t KvCacheManagerV2::num_blocks(const LlmRequest &request) const {
    const KvCache *kv_cache = find(request);
    return kv_cache == nullptr ? 0 : kv_cache->num_blocks();
}

KvCacheManagerV2::PageLists KvCacheManagerV2::page_indices_range(const LlmRequest &request,
                                                                 std::int64_t begin) const {
    PageLists lists(layer_groups_.size());
    const KvCache *kv_cache = find(request);
    if (kv_cache == nullptr || begin >= kv_cache->num_blocks()) return lists;
    for (std::size_t index = 0; index < lists.size(); ++index)
        lists[index] = kv_cache->masked_page_indices(index, begin, layer_groups_[index],
                                                     tokens_per_block_);
    return lists;
}

std::tuple<std::vector<std::int64_t>, std::vector<Tokens>, std::vector<KvCacheManagerV2::PageLists>>
KvCacheManagerV2::batch_updates(const std::vector<const LlmRequest *> &requests,
                                const std::vector<std::int64_t> &num_tokens,
                                const std::vector<std::int64_t> &num_blocks) const {
    const std::size_t size = requests.size();
    check_parallel(size, {num_tokens.size(), num_blocks.size()});
    std::vector<std::int64_t> lengths(size);
    std::vector<Tokens> tokens(size);
    std::vector<PageLists> pages(size);
    for (std::size_t i = 0; i < size; ++i) {
        lengths[i] = requests[i]->num_tokens(0);
        tokens[i] = tail(requests[i]->tokens(0), num_tokens[i]);
        pages[i] = page_indices_range(*requests[i], num_blocks[i]);
    }
    return {std::move(lengths), std::move(tokens), std::move(pages)};
}

const KvCache *KvCacheManagerV2::find(const LlmRequest &request) const {
    const auto found = kv_caches_.find(request.request_id);
    return found == kv_caches_.end() ? nullptr : found->second.get();
}

}  // namespace stepbench
