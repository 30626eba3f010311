#include "cli/demo/verdict.h"

#include <cstdint>

#include "cli/output/text.h"

namespace outbox::demo {

using cli::grouped;
using cli::pad;
using cli::pad_left;
using cli::Style;
using cli::styled;

namespace {

std::string count_of(std::size_t n, const std::string& one) {
  return grouped(static_cast<std::int64_t>(n)) + ' ' + one + (n == 1 ? "" : "s");
}

// `check`: what is said of a number that must be zero; three columns wide.
std::string row(const char* name, std::size_t n, const std::string& check, const char* note) {
  return "  " + pad(name, 14) + pad_left(grouped(static_cast<std::int64_t>(n)), 9) + "  " + check +
         "  " + note + '\n';
}

std::string duplicates_line(const Verdict& verdict) {
  const std::string duplicates = count_of(verdict.events.duplicates, "duplicate");
  if (verdict.kills == 0) {
    return verdict.events.duplicates == 0
               ? "No duplicates: without a fault every event is delivered once."
               : duplicates + " although nothing was killed: that must not happen.";
  }
  const std::string after =
      duplicates + " after " + count_of(static_cast<std::size_t>(verdict.kills), "kill");
  return verdict.events.duplicates == 0
             ? after + "."
             : after + ": at-least-once; the receiver recognised them by id.";
}

}  // namespace

Verdict judge(const RunRecord& record) {
  // Without a fault, every event is delivered once.
  const std::size_t bound = record.kills > 0 ? record.receipts.size() : 0;
  return {.events = harness::judge(record.orders, record.receipts,
                                   {.duplicate_bound = bound, .pending = record.pending}),
          .rolled_back = record.rolled_back,
          .kills = record.kills,
          .unexpected_exits = record.unexpected_exits};
}

std::string to_text(const Verdict& verdict, bool color) {
  const harness::Verdict& events = verdict.events;
  const auto any = [](const char* name, std::size_t n, const char* note) {
    return row(name, n, pad("", 3), note);
  };
  // Padded before it is painted: the codes have no width.
  const auto zero = [color](const char* name, std::size_t n, const char* note) {
    return row(name, n,
               n == 0 ? styled(pad("ok", 3), Style::good, color)
                      : styled(pad("BAD", 3), Style::bad, color),
               note);
  };
  std::string text =
      any("committed", events.committed, "orders, each with its event in one transaction") +
      any("rolled back", verdict.rolled_back, "on purpose; nobody may hear of these") +
      any("delivered", events.delivered + events.ghosts,
          "different events that the receiver wrote down") +
      any("duplicates", events.duplicates, "events that it was sent once more") +
      zero("lost", events.lost, "committed, never delivered") +
      zero("ghosts", events.ghosts, "delivered, never committed") +
      zero("order breaks", events.order_breaks, "overtook an older order of the same customer") +
      '\n' + duplicates_line(verdict) + '\n';
  if (events.pending > 0) {
    text += count_of(events.pending, "event") +
            " still waited in the outbox when the demo stopped waiting for them.\n";
  }
  if (events.garbled > 0) {
    text += count_of(events.garbled, "event") + " arrived as something else than was committed.\n";
  }
  if (!verdict.unexpected_exits.empty()) {
    text += count_of(verdict.unexpected_exits.size(), "process death") +
            " by accident, the first: " + verdict.unexpected_exits.front() + ".\n";
  }
  if (verdict.good()) text += "Nothing lost, no ghosts, every customer's orders in order.\n";
  return text;
}

}  // namespace outbox::demo
