#include "cli/demo/verdict.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cli/output/text.h"

namespace outbox::demo {

using cli::grouped;
using cli::pad;
using cli::pad_left;
using cli::Style;
using cli::styled;

namespace {

std::string count_of(std::int64_t n, const std::string& one) {
  return grouped(n) + ' ' + one + (n == 1 ? "" : "s");
}

// `check`: what is said of a number that must be zero; three columns wide.
std::string row(const char* name, std::int64_t n, const std::string& check, const char* note) {
  return "  " + pad(name, 14) + pad_left(grouped(n), 9) + "  " + check + "  " + note + '\n';
}

std::string duplicates_line(const Verdict& verdict) {
  const std::string duplicates = count_of(verdict.duplicates, "duplicate");
  if (verdict.kills == 0) {
    return verdict.duplicates == 0
               ? "No duplicates: without a fault every event is delivered once."
               : duplicates + " although nothing was killed: that must not happen.";
  }
  const std::string after = duplicates + " after " + count_of(verdict.kills, "kill");
  return verdict.duplicates == 0 ? after + "."
                                 : after + ": at-least-once; the receiver recognised them by id.";
}

}  // namespace

bool Verdict::good() const {
  return lost == 0 && ghosts == 0 && order_breaks == 0 && pending == 0 &&
         unexpected_exits.empty() && (duplicates == 0 || kills > 0);
}

Verdict judge(const RunRecord& record) {
  Verdict verdict{.committed = static_cast<std::int64_t>(record.orders.size()),
                  .rolled_back = static_cast<std::int64_t>(record.rolled_back.size()),
                  .kills = record.kills,
                  .unexpected_exits = record.unexpected_exits};
  std::unordered_set<std::string> committed;
  for (const Order& order : record.orders) committed.insert(order.event_id);

  std::unordered_set<std::string> delivered;
  std::unordered_map<std::string, int> highest;
  for (const Message& receipt : record.receipts) {
    if (!delivered.insert(receipt.id).second) {
      ++verdict.duplicates;
      continue;
    }
    if (!committed.contains(receipt.id)) {
      ++verdict.ghosts;
      continue;
    }
    int& before = highest[receipt.customer];
    if (receipt.number < before) ++verdict.order_breaks;
    before = std::max(before, receipt.number);
  }
  verdict.delivered = static_cast<std::int64_t>(delivered.size());

  const std::unordered_set<std::string> pending(record.pending.begin(), record.pending.end());
  for (const std::string& id : committed) {
    if (delivered.contains(id)) continue;
    ++(pending.contains(id) ? verdict.pending : verdict.lost);
  }
  return verdict;
}

std::string to_text(const Verdict& verdict, bool color) {
  const auto any = [](const char* name, std::int64_t n, const char* note) {
    return row(name, n, pad("", 3), note);
  };
  // Padded before it is painted: the codes have no width.
  const auto zero = [color](const char* name, std::int64_t n, const char* note) {
    return row(name, n,
               n == 0 ? styled(pad("ok", 3), Style::good, color)
                      : styled(pad("BAD", 3), Style::bad, color),
               note);
  };
  std::string text =
      any("committed", verdict.committed, "orders, each with its event in one transaction") +
      any("rolled back", verdict.rolled_back, "on purpose; nobody may hear of these") +
      any("delivered", verdict.delivered, "different events that the receiver wrote down") +
      any("duplicates", verdict.duplicates, "events that it was sent once more") +
      zero("lost", verdict.lost, "committed, never delivered") +
      zero("ghosts", verdict.ghosts, "delivered, never committed") +
      zero("order breaks", verdict.order_breaks, "overtook an older order of the same customer") +
      '\n' + duplicates_line(verdict) + '\n';
  if (verdict.pending > 0) {
    text += count_of(verdict.pending, "event") +
            " still waited in the outbox when the demo stopped waiting for them.\n";
  }
  if (!verdict.unexpected_exits.empty()) {
    text += count_of(static_cast<std::int64_t>(verdict.unexpected_exits.size()), "process death") +
            " by accident, the first: " + verdict.unexpected_exits.front() + ".\n";
  }
  if (verdict.good()) text += "Nothing lost, no ghosts, every customer's orders in order.\n";
  return text;
}

}  // namespace outbox::demo
