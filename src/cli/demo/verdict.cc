#include "cli/demo/verdict.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cli/output/text.h"

namespace outbox::demo {

using cli::grouped;
using cli::pad;
using cli::pad_left;

namespace {

std::string count_of(std::int64_t n, const std::string& one) {
  return grouped(n) + ' ' + one + (n == 1 ? "" : "s");
}

class Table {
 public:
  explicit Table(bool color) : color_(color) {}

  void row(const char* name, std::int64_t n, const char* note) { add(name, n, "", note); }

  // One that must be zero.
  void zero(const char* name, std::int64_t n, const char* note) {
    add(name, n, n == 0 ? paint("ok", "32") : paint("BAD", "1;31"), note);
  }

  std::string text() const { return text_; }

 private:
  std::string paint(const std::string& word, const char* code) const {
    // Padded before it is painted: the codes have no width.
    const std::string padded = pad(word, 3);
    return color_ ? "\x1b[" + std::string(code) + 'm' + padded + "\x1b[0m" : padded;
  }

  void add(const char* name, std::int64_t n, const std::string& update, const char* note) {
    text_ += "  " + pad(name, 14) + pad_left(grouped(n), 9) + "  " +
             (update.empty() ? pad("", 3) : update) + "  " + note + '\n';
  }

  const bool color_;
  std::string text_;
};

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
  return lost == 0 && ghosts == 0 && order_breaks == 0 && pending == 0 && accidents.empty() &&
         (duplicates == 0 || kills > 0);
}

Verdict judge(const Evidence& evidence) {
  Verdict verdict{.committed = static_cast<std::int64_t>(evidence.orders.size()),
                  .rolled_back = static_cast<std::int64_t>(evidence.rolled_back.size()),
                  .kills = evidence.kills,
                  .accidents = evidence.accidents};
  std::unordered_set<std::string> committed;
  for (const Order& order : evidence.orders) committed.insert(order.event_id);

  std::unordered_set<std::string> delivered;
  std::unordered_map<std::string, int> highest;
  for (const Parcel& receipt : evidence.receipts) {
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

  const std::unordered_set<std::string> pending(evidence.pending.begin(), evidence.pending.end());
  for (const std::string& id : committed) {
    if (delivered.contains(id)) continue;
    ++(pending.contains(id) ? verdict.pending : verdict.lost);
  }
  return verdict;
}

std::string to_text(const Verdict& verdict, bool color) {
  Table table(color);
  table.row("committed", verdict.committed, "orders, each with its event in one transaction");
  table.row("rolled back", verdict.rolled_back, "on purpose; nobody may hear of these");
  table.row("delivered", verdict.delivered, "different events that the receiver wrote down");
  table.row("duplicates", verdict.duplicates, "events that it was sent once more");
  table.zero("lost", verdict.lost, "committed, never delivered");
  table.zero("ghosts", verdict.ghosts, "delivered, never committed");
  table.zero("order breaks", verdict.order_breaks, "overtook an older order of the same customer");
  std::string text = table.text() + '\n' + duplicates_line(verdict) + '\n';
  if (verdict.pending > 0) {
    text += count_of(verdict.pending, "event") +
            " still waited in the outbox when the demo stopped waiting for them.\n";
  }
  if (!verdict.accidents.empty()) {
    text += count_of(static_cast<std::int64_t>(verdict.accidents.size()), "process death") +
            " by accident, the first: " + verdict.accidents.front() + ".\n";
  }
  if (verdict.good()) text += "Nothing lost, no ghosts, every customer's orders in order.\n";
  return text;
}

}  // namespace outbox::demo
