#include "kv_cache_v1.hpp"

#include <algorithm>
#include <string>

namespace stepbench {

namespace {

// The hash of a full block: FNV-1a over 64-bit words, the parent's hash and then the tokens, with a
// shift that lets high bits reach low ones. stubs/block_hash.py computes the same.
BlockHash hash_block(BlockHash parent, const Token *begin, const Token *end) {
    constexpr BlockHash kOffsetBasis = 0xcbf29ce484222325;
    constexpr BlockHash kPrime = 0x100000001b3;
    const auto mix = [](BlockHash hash, BlockHash word) {
        hash = (hash ^ word) * kPrime;
        return hash ^ (hash >> 32);
    };
    BlockHash hash = mix(kOffsetBasis, parent);
    for (const Token *token = begin; token != end; ++token)
        hash = mix(hash, static_cast<std::uint32_t>(*token));
    return hash;
}

// The sequence of a request, from a const or another map.
template <typename Sequences>
auto &find_sequence(Sequences &sequences, std::int64_t request_id) {
    const auto found = sequences.find(request_id);
    if (found == sequences.end()) throw UnknownRequest(request_id);
    return found->second;
}

}  // namespace

UnknownRequest::UnknownRequest(std::int64_t request_id)
    : std::runtime_error("request " + std::to_string(request_id) + " holds no blocks") {}

KvCacheManagerV1::KvCacheManagerV1(std::int32_t tokens_per_block)
    : tokens_per_block_(checked_tokens_per_block(tokens_per_block)) {}

std::int64_t KvCacheManagerV1::admit(std::int64_t request_id) {
    return sequences_[request_id].blocks.size();
}

void KvCacheManagerV1::add_block(const LlmRequest &request, Page block) {
    PageTable &blocks = find_sequence(sequences_, request.request_id).blocks;
    const auto priority = request.priority_at(blocks.size() * tokens_per_block_);
    if (priority) priorities_[block] = *priority;
    blocks.pages.push_back(block);
}

std::vector<Page> KvCacheManagerV1::truncate(std::int64_t request_id, std::int64_t num_blocks) {
    return cut(find_sequence(sequences_, request_id), num_blocks);
}

std::vector<Page> KvCacheManagerV1::release(std::int64_t request_id) {
    const auto found = sequences_.find(request_id);
    if (found == sequences_.end()) return {};
    std::vector<Page> freed = cut(found->second, 0);
    sequences_.erase(found);
    return freed;
}

const std::vector<Page> &KvCacheManagerV1::cache_indices(const LlmRequest &request) const {
    return find_sequence(sequences_, request.request_id).blocks.pages;
}

std::vector<BlockHash> KvCacheManagerV1::commit_and_get_block_hashes(const LlmRequest &request) {
    Sequence &sequence = find_sequence(sequences_, request.request_id);
    const auto num_full = static_cast<std::ptrdiff_t>(commit(request, sequence));
    return {sequence.hashes.begin(), sequence.hashes.begin() + num_full};
}

std::int32_t KvCacheManagerV1::priority_by_block_id(Page block) const {
    const auto found = priorities_.find(block);
    return found == priorities_.end() ? kDefaultPriority : found->second;
}

std::int64_t KvCacheManagerV1::num_blocks(const LlmRequest &request) const {
    return find_sequence(sequences_, request.request_id).blocks.size();
}

std::vector<Page> KvCacheManagerV1::cache_indices_range(const LlmRequest &request,
                                                        std::int64_t begin) const {
    return tail(find_sequence(sequences_, request.request_id).blocks.pages, begin);
}

std::pair<std::int64_t, std::vector<BlockHash>> KvCacheManagerV1::block_hashes_after(
    const LlmRequest &request, std::int64_t count, BlockHash last) {
    Sequence &sequence = find_sequence(sequences_, request.request_id);
    const std::vector<BlockHash> &hashes = sequence.hashes;
    const auto num_full = static_cast<std::int64_t>(commit(request, sequence));
    // A hash stands for all before it: the known prefix holds whole or not at all.
    if (count <= 0 || count > num_full || hashes[static_cast<std::size_t>(count - 1)] != last)
        count = 0;
    return {count, {hashes.begin() + count, hashes.begin() + num_full}};
}

std::tuple<std::vector<std::int64_t>, std::vector<Tokens>, std::vector<std::vector<Page>>,
           std::vector<std::int64_t>, std::vector<std::vector<BlockHash>>>
KvCacheManagerV1::batch_updates(const std::vector<const LlmRequest *> &requests,
                                const std::vector<std::int64_t> &num_tokens,
                                const std::vector<std::int64_t> &num_blocks,
                                const std::vector<std::int64_t> &num_hashes,
                                const std::vector<BlockHash> &last_hashes) {
    const std::size_t size = requests.size();
    check_parallel(size,
                   {num_tokens.size(), num_blocks.size(), num_hashes.size(), last_hashes.size()});
    std::vector<std::int64_t> lengths(size), valid(size);
    std::vector<Tokens> tokens(size);
    std::vector<std::vector<Page>> blocks(size);
    std::vector<std::vector<BlockHash>> hashes(size);
    for (std::size_t i = 0; i < size; ++i) {
        const LlmRequest &request = *requests[i];
        lengths[i] = request.num_tokens(0);
        tokens[i] = tail(request.tokens(0), num_tokens[i]);
        blocks[i] = cache_indices_range(request, num_blocks[i]);
        std::tie(valid[i], hashes[i]) = block_hashes_after(request, num_hashes[i], last_hashes[i]);
    }
    return {std::move(lengths), std::move(tokens), std::move(blocks), std::move(valid),
            std::move(hashes)};
}

std::vector<Page> KvCacheManagerV1::cut(Sequence &sequence, std::int64_t num_blocks) {
    std::vector<Page> &pages = sequence.blocks.pages;
    std::vector<Page> freed = tail(pages, num_blocks);
    pages.resize(pages.size() - freed.size());
    sequence.hashes.resize(std::min(sequence.hashes.size(), pages.size()));
    for (Page block : freed) priorities_.erase(block);
    return freed;
}

std::size_t KvCacheManagerV1::commit(const LlmRequest &request, Sequence &sequence) {
    const Tokens &tokens = request.tokens(0);
    std::vector<BlockHash> &hashes = sequence.hashes;
    const auto size = static_cast<std::size_t>(tokens_per_block_);
    const std::size_t num_full = std::min(tokens.size() / size, sequence.blocks.pages.size());
    while (hashes.size() < num_full) {
        const Token *begin = tokens.data() + hashes.size() * size;
        hashes.push_back(hash_block(hashes.empty() ? 0 : hashes.back(), begin, begin + size));
    }
    return num_full;
}

}  // namespace stepbench
