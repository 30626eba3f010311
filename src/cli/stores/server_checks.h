// What the examinations of servers have in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/stores/backend.h"

namespace outbox::cli {

// Whether the server's clock, given as the time since 1970, is like ours.
Finding check_clock(std::chrono::microseconds there);

// Whether an engine, which opens `needed` connections at most, still finds so many free.
// `remedy` says what to raise.
Finding check_sessions(std::int64_t left, std::int64_t most, std::int64_t needed,
                       const std::string& remedy);

// Something that a login may be for: to write, to deliver.
struct Duty {
  std::string name{};
  std::string lacks{};  // the privileges that are missing for it; empty if none
};

// A login of its own for each duty is good practice: one that can do some of them is in
// order. `who` is "the role" or "the user".
Finding check_duties(const std::string& who, const std::vector<Duty>& duties);

// What run() finds. What cannot be told is no reason to leave out the rest.
Finding try_check(const char* check, const std::function<Finding()>& run);

bool any_failed(const std::vector<Finding>& findings);

}  // namespace outbox::cli
