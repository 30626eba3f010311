// Whether the promises were kept: what the shop committed against what the
// receiver wrote down.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/demo/messages.h"
#include "cli/demo/shop.h"

namespace outbox::demo {

// What each side wrote down for itself, and the faults that it was put to.
struct RunRecord {
  std::vector<Order> orders{};                  // from the shop's table
  std::vector<std::string> rolled_back{};       // ids, from the writer's ledger
  std::vector<Message> receipts{};              // in order, repeats included
  std::vector<std::string> pending{};           // ids that were still to be delivered
  int kills = 0;                                // of the dispatcher and the receiver
  std::vector<std::string> unexpected_exits{};  // deaths that were not ordered
};

struct Verdict {
  std::int64_t committed = 0;
  std::int64_t rolled_back = 0;
  std::int64_t delivered = 0;   // different events
  std::int64_t duplicates = 0;  // receipts beyond the first of an event
  std::int64_t pending = 0;     // committed, and the demo did not wait for it
  std::int64_t lost = 0;        // committed, not delivered and not pending
  std::int64_t ghosts = 0;      // delivered, and never committed
  std::int64_t order_breaks = 0;
  int kills = 0;
  std::vector<std::string> unexpected_exits{};

  bool good() const;
};

Verdict judge(const RunRecord& record);

// The table and what follows from it, in several lines.
std::string to_text(const Verdict& verdict, bool color);

}  // namespace outbox::demo
