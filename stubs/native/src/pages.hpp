// What both KV cache managers are built from.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace stepbench {

using Page = std::int32_t;

// A block that has no page, or whose page no coming token reads.
constexpr Page kBadPageIndex = -1;

// The pages of a sequence in block order. Who allocates them is Python code that all providers
// share, so that equal seeds give equal pages; only the table and its reads are native.
struct PageTable {
    std::vector<Page> pages;

    std::int64_t size() const { return static_cast<std::int64_t>(pages.size()); }
};

// The part of `values` from `begin` on; a negative `begin` is 0, as in get_tokens_range.
template <typename T>
std::vector<T> tail(const std::vector<T> &values, std::int64_t begin) {
    begin = std::clamp<std::int64_t>(begin, 0, static_cast<std::int64_t>(values.size()));
    return std::vector<T>(values.begin() + begin, values.end());
}

// Raises ValueError in Python unless all arguments of a batch call have an entry for each request.
inline void check_parallel(std::size_t requests, std::initializer_list<std::size_t> sizes) {
    for (std::size_t size : sizes) {
        if (size != requests)
            throw std::invalid_argument("a batch of " + std::to_string(requests) +
                                        " requests came with a list of " + std::to_string(size));
    }
}

// Thirty-two bits, so that no product with a number of blocks overflows.
inline std::int64_t checked_tokens_per_block(std::int32_t tokens_per_block) {
    if (tokens_per_block < 1)
        throw std::invalid_argument("tokens_per_block must be at least 1, not " +
                                    std::to_string(tokens_per_block));
    return tokens_per_block;
}

}  // namespace stepbench
