#include "request.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace stepbench {

namespace {

std::string outside(const char *what, std::int64_t index, std::size_t size) {
    return std::string(what) + " " + std::to_string(index) + " is outside [0, " +
           std::to_string(size) + ")";
}

}  // namespace

const char *name_of(RequestState state) {
    switch (state) {
        case RequestState::kContextInit: return "CONTEXT_INIT";
        case RequestState::kGenerationInProgress: return "GENERATION_IN_PROGRESS";
        case RequestState::kGenerationComplete: return "GENERATION_COMPLETE";
        case RequestState::kDisaggContextTransInProgress:
            return "DISAGG_CONTEXT_TRANS_IN_PROGRESS";
        case RequestState::kDisaggGenerationTransInProgress:
            return "DISAGG_GENERATION_TRANS_IN_PROGRESS";
    }
    return "UNKNOWN";
}

LlmRequest::LlmRequest(std::int64_t request_id, Tokens prompt, std::int64_t beam_width,
                       std::optional<KvCacheRetentionConfig> retention_config)
    : request_id(request_id),
      retention_config_(std::move(retention_config)),
      prompt_len_(static_cast<std::int64_t>(prompt.size())),
      chunk_size_(prompt_len_) {
    if (beam_width < 1)
        throw std::invalid_argument("beam_width must be at least 1, not " +
                                    std::to_string(beam_width));
    if (beam_width > kMaxBeamWidth)
        throw std::invalid_argument("beam_width must be at most " + std::to_string(kMaxBeamWidth) +
                                    ", not " + std::to_string(beam_width));
    if (prompt.empty()) throw std::invalid_argument("a request needs at least one prompt token");
    for (std::int64_t beam = 1; beam < beam_width; ++beam)
        beams_.push_back(std::make_shared<Tokens>(prompt));
    beams_.push_back(std::make_shared<Tokens>(std::move(prompt)));
}

std::int64_t LlmRequest::num_tokens(std::int64_t beam) const {
    return static_cast<std::int64_t>(beams_[checked(beam)]->size());
}

const Tokens &LlmRequest::tokens(std::int64_t beam) const { return *beams_[checked(beam)]; }

std::vector<Tokens> LlmRequest::all_tokens() const {
    std::vector<Tokens> all;
    for (const Beam &beam : beams_) all.push_back(*beam);
    return all;
}

Token LlmRequest::token(std::int64_t beam, std::int64_t position) const {
    const Tokens &tokens = *beams_[checked(beam)];
    if (position < 0 || position >= static_cast<std::int64_t>(tokens.size()))
        throw std::out_of_range(outside("position", position, tokens.size()));
    return tokens[static_cast<std::size_t>(position)];
}

Tokens LlmRequest::tokens_range(std::int64_t beam, std::int64_t begin, std::int64_t end) const {
    const Tokens &tokens = *beams_[checked(beam)];
    const auto n = static_cast<std::int64_t>(tokens.size());
    // Upstream's clamps in upstream's order: a negative bound is no distance from the end, and a
    // reversed range is empty.
    if (begin < 0) begin = 0;
    if (begin > n) begin = n;
    if (end < begin) end = begin;
    if (end > n) end = n;
    return Tokens(tokens.begin() + begin, tokens.begin() + end);
}

void LlmRequest::add_new_token(Token token, std::int64_t beam) {
    Beam &tokens = beams_[checked(beam)];
    if (tokens.use_count() > 1) tokens = std::make_shared<Tokens>(*tokens);
    tokens->push_back(token);
}

std::shared_ptr<const Tokens> LlmRequest::share_tokens(std::int64_t beam) const {
    return beams_[checked(beam)];
}

void LlmRequest::pause(std::int64_t max_input_len) {
    if (max_input_len < 1)
        throw std::invalid_argument("max_input_len must be at least 1, not " +
                                    std::to_string(max_input_len));
    // What was generated becomes part of the prompt. Several beams, whose histories differ, are cut
    // back to the old prompt instead.
    std::int64_t length = prompt_len_;
    if (beams_.size() == 1) length = std::min(max_input_len, num_tokens(0));
    for (Beam &tokens : beams_)
        tokens = std::make_shared<Tokens>(tokens->begin(), tokens->begin() + length);
    prompt_len_ = length;
    context_current_position_ = 0;
    chunk_size_ = length;
    state = RequestState::kContextInit;
}

std::int64_t LlmRequest::context_chunk_size() const {
    if (!in_context_phase())
        throw std::runtime_error(std::string("context_chunk_size is undefined in state ") +
                                 name_of(state));
    return chunk_size_;
}

void LlmRequest::set_context_chunk_size(std::int64_t size) {
    if (!in_context_phase())
        throw std::runtime_error(std::string("context_chunk_size cannot be set in state ") +
                                 name_of(state));
    if (size < 0)
        throw std::invalid_argument("context_chunk_size must not be negative, not " +
                                    std::to_string(size));
    chunk_size_ = std::min(size, context_remaining_length());
}

void LlmRequest::move_to_next_context_chunk() {
    context_current_position_ += context_chunk_size();
    chunk_size_ = 0;  // The next chunk has no size until it is given one.
}

std::optional<std::int32_t> LlmRequest::priority_at(std::int64_t position) const {
    if (!retention_config_) return std::nullopt;
    return retention_config_->priority_at(position, prompt_len_);
}

std::size_t LlmRequest::checked(std::int64_t beam) const {
    if (beam < 0 || beam >= static_cast<std::int64_t>(beams_.size()))
        throw std::out_of_range(outside("beam", beam, beams_.size()));
    return static_cast<std::size_t>(beam);
}

bool LlmRequest::in_context_phase() const {
    return state == RequestState::kContextInit ||
           state == RequestState::kDisaggGenerationTransInProgress;
}

}  // namespace stepbench
