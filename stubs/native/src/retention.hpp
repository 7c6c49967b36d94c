// How long the blocks of a request should stay in the cache.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace stepbench {

constexpr std::int32_t kDefaultPriority = 35;

// The prompt tokens [begin, end); no end means the whole rest.
struct TokenRangeRetention {
    std::int64_t begin;
    std::optional<std::int64_t> end;
    std::int32_t priority;
};

struct KvCacheRetentionConfig {
    std::vector<TokenRangeRetention> ranges;
    std::int32_t decode_priority = kDefaultPriority;

    // The priority of the block whose first token is at `position`; the first range that has it
    // counts.
    std::int32_t priority_at(std::int64_t position, std::int64_t prompt_length) const;
};

}  // namespace stepbench
