// Whether the promises were kept: what the shop committed against what the receiver wrote down.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "harness/receiver.h"
#include "harness/verdict.h"

namespace outbox::demo {

// What each side wrote down for itself, and the faults that it was put to.
struct RunRecord {
  std::vector<harness::Committed> orders{};     // from the shop's table
  std::size_t rolled_back = 0;                  // from the writer's ledger
  std::vector<harness::Message> receipts{};     // in order, repeats included
  std::unordered_set<std::string> pending{};    // ids that were still to be delivered
  int kills = 0;                                // of the dispatcher and the receiver
  std::vector<std::string> unexpected_exits{};  // deaths that were not ordered
};

struct Verdict {
  harness::Verdict events{};  // of the orders
  std::size_t rolled_back = 0;
  int kills = 0;
  std::vector<std::string> unexpected_exits{};

  bool good() const { return events.clean() && unexpected_exits.empty(); }
};

Verdict judge(const RunRecord& record);

// The table and what follows from it, in several lines.
std::string to_text(const Verdict& verdict, bool color);

}  // namespace outbox::demo
