// Writers side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness.h"

namespace outbox::bench {

// A way to write that is compared with others: one transaction of the given writer. Its
// writers run on a thread each.
struct Contestant {
  std::string name{};
  std::function<void(std::size_t writer, std::uint64_t number)> transaction{};
};

// Transactions a second of each contestant, all writers together. They take turns that
// are as short as possible: what disturbs the disk for a moment disturbs all of them.
std::vector<Samples> in_turns(std::span<const Contestant> contestants, std::size_t writers,
                              std::size_t transactions, int rounds);

}  // namespace outbox::bench
