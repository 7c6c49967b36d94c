// One request with its tokens: the part of TensorRT-LLM's GenericLlmRequest that the measured path
// reads, with its names, its clamps and its errors.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "retention.hpp"

namespace stepbench {

using Token = std::int32_t;
using Tokens = std::vector<Token>;

// The members of connector.interfaces.LlmRequestState.
enum class RequestState {
    kContextInit,
    kGenerationInProgress,
    kGenerationComplete,
    kDisaggContextTransInProgress,
    kDisaggGenerationTransInProgress,
};
constexpr std::size_t kNumRequestStates = 5;

// The name that the member has in Python.
const char *name_of(RequestState state);

// Positions and sizes are signed and wider than any sequence can be, so that whatever int Python
// hands over is either refused by the binding or clamped here, and never wraps around.
//
// A bad beam or position is std::out_of_range, which the binding turns into an IndexError;
// std::invalid_argument becomes a ValueError and std::runtime_error a RuntimeError.
class LlmRequest {
public:
    static constexpr std::int64_t kMaxBeamWidth = 1024;

    LlmRequest(std::int64_t request_id, Tokens prompt, std::int64_t beam_width,
               std::optional<KvCacheRetentionConfig> retention_config);

    std::int64_t request_id;
    RequestState state = RequestState::kContextInit;
    bool is_dummy_request = false;

    // Tokens

    std::int64_t num_tokens(std::int64_t beam) const;
    const Tokens &tokens(std::int64_t beam) const;
    std::vector<Tokens> all_tokens() const;
    Token token(std::int64_t beam, std::int64_t position) const;
    Tokens tokens_range(std::int64_t beam, std::int64_t begin, std::int64_t end) const;
    void add_new_token(Token token, std::int64_t beam);

    // A beam as it is now, for whoever must outlive its next change.
    //
    // Upstream's view points into the vector and dangles once the vector grows. Here a beam that
    // is shared is replaced by a copy before it changes, so that an old view is stale but safe.
    std::shared_ptr<const Tokens> share_tokens(std::int64_t beam) const;

    void pause(std::int64_t max_input_len);

    // Context phase

    bool in_context_phase() const;
    std::int64_t prompt_len() const { return prompt_len_; }
    std::int64_t context_current_position() const { return context_current_position_; }
    void set_context_current_position(std::int32_t position) {
        context_current_position_ = position;
    }
    std::int64_t context_remaining_length() const {
        return prompt_len_ - context_current_position_;
    }
    std::int64_t context_chunk_size() const;
    void set_context_chunk_size(std::int64_t size);
    void move_to_next_context_chunk();

    // By value, as upstream returns it: whoever reads it pays for a copy.
    std::optional<KvCacheRetentionConfig> retention_config() const { return retention_config_; }

    bool has_retention_config() const { return retention_config_.has_value(); }

    // The priority of the block whose first token is at `position`; none without a config.
    std::optional<std::int32_t> priority_at(std::int64_t position) const;

private:
    using Beam = std::shared_ptr<Tokens>;

    std::size_t checked(std::int64_t beam) const;

    std::vector<Beam> beams_;
    std::optional<KvCacheRetentionConfig> retention_config_;
    std::int64_t prompt_len_;
    std::int64_t context_current_position_ = 0;
    std::int64_t chunk_size_;
};

}  // namespace stepbench
