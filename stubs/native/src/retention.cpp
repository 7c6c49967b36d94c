#include "retention.hpp"

namespace stepbench {

std::int32_t KvCacheRetentionConfig::priority_at(std::int64_t position,
                                                 std::int64_t prompt_length) const {
    if (position >= prompt_length) return decode_priority;
    for (const TokenRangeRetention &range : ranges) {
        if (range.begin <= position && (!range.end || position < *range.end)) return range.priority;
    }
    return kDefaultPriority;
}

}  // namespace stepbench
