// The requests of a batch, as Python hands them over.

#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <vector>

#include "request.hpp"

namespace stepbench {

// The requests of a sequence, kept alive while they are read. Made after all other arguments were
// converted: converting a number can run Python code, which could drop them from the caller's list.
class Batch {
public:
    explicit Batch(const nanobind::object &requests) : held_(requests) {
        requests_.reserve(held_.size());
        for (nanobind::handle item : held_) {
            if (!nanobind::isinstance<LlmRequest>(item) || !nanobind::inst_ready(item))
                throw nanobind::type_error("a batch holds requests, and nothing else");
            requests_.push_back(nanobind::inst_ptr<LlmRequest>(item));
        }
    }
    const std::vector<const LlmRequest *> &requests() const { return requests_; }
    nanobind::handle object(std::size_t index) const { return held_[index]; }

private:
    nanobind::list held_;
    std::vector<const LlmRequest *> requests_;
};

}  // namespace stepbench
