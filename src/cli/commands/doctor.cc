// `outbox doctor`: is everything in order, and if not, what to do.
#include <algorithm>
#include <exception>
#include <string>

#include "base/quote.h"
#include "base/time_text.h"
#include "cli/arguments/values.h"
#include "cli/commands/commands.h"
#include "cli/errors.h"
#include "cli/output/text.h"

namespace outbox::cli {
namespace {

using Verdict = Finding::Verdict;
using std::chrono::microseconds;

// Long enough for any engine to have begun with what is due.
constexpr microseconds kPendingIsOld = std::chrono::minutes{1};

// Clocks of hosts differ by less than that.
constexpr microseconds kClockTolerance = std::chrono::minutes{1};

struct Options {
  StoreOptions store{};
  bool skip_integrity = false;
  bool repair = false;
};

Finding judge_schema(const Backend& backend, const SchemaStatus& status) {
  Finding finding{.check = "schema"};
  if (status.up_to_date()) {
    finding.says = "version " + std::to_string(status.present) + ", up to date";
    return finding;
  }
  finding.verdict = Verdict::failure;
  if (status.newer()) {
    finding.says = "version " + std::to_string(status.present) +
                   ", newer than this binary knows (" + std::to_string(status.latest) + ")";
    finding.advice = "use the outbox that belongs to it";
  } else {
    finding.says = status.present == 0 ? "there are no tables"
                                       : "version " + std::to_string(status.present) + " of " +
                                             std::to_string(status.latest);
    finding.advice = "outbox migrate up " + backend.arguments();
  }
  return finding;
}

Finding check_owner(const std::vector<Member>& members) {
  const auto alive = [](const Member& member) { return member.alive; };
  const auto first = std::find_if(members.begin(), members.end(), alive);
  if (first != members.end()) {
    const auto others = std::count_if(first + 1, members.end(), alive);
    return {.check = "owner",
            .says = printable(first->name) +
                    (others > 0 ? " and " + grouped(others) + " more deliver" : " delivers") +
                    " (process " + std::to_string(first->pid) + " on " + printable(first->host) +
                    ")"};
  }
  if (members.empty()) return {.check = "owner", .says = "nobody delivers now"};
  return {.check = "owner",
          .says = "nobody delivers now; the last was " + printable(members.front().name)};
}

Finding check_pending(const Counts& counts, bool owned, Time now) {
  Finding finding{.check = "pending"};
  if (!counts.oldest_pending) {
    finding.says = counts.pending == 0
                       ? "nothing waits"
                       : grouped(counts.pending) + " wait, none of them could be delivered now";
    return finding;
  }
  const microseconds age = now - *counts.oldest_pending;
  finding.says = grouped(counts.pending) + " wait, the oldest that is due for " + age_text(age);
  if (age <= kPendingIsOld) return finding;
  if (owned) {
    finding.verdict = Verdict::warning;
    finding.advice =
        "the engine is behind: look at its log for a listener that is unavailable or hangs, "
        "or give it more workers";
  } else {
    finding.verdict = Verdict::failure;
    finding.says += ", and nobody delivers";
    finding.advice = "start the application that runs the engine";
  }
  return finding;
}

Finding check_dead(const Backend& backend, const Counts& counts) {
  if (counts.dead == 0) return {.check = "dead", .says = "none"};
  return {.check = "dead",
          .verdict = Verdict::warning,
          .says = grouped(counts.dead) + (counts.dead == 1 ? " event was" : " events were") +
                  " given up",
          .advice = "outbox dead groups " + backend.arguments() + " tells why"};
}

Finding check_held(const Backend& backend, const std::vector<HeldAggregate>& held) {
  if (held.empty()) return {.check = "held", .says = "no aggregate waits behind a failing event"};
  const HeldAggregate& first = held.front();
  return {.check = "held",
          .verdict = Verdict::warning,
          .says = "aggregate " + printable(first.aggregate_type + "/" + first.aggregate_id) +
                  (held.size() > 1 ? " and others wait" : " waits") + " behind a failing event",
          .advice = "outbox status " + backend.arguments() + " lists them"};
}

// The store's clock stamps events and judges when they are due.
Finding check_clock(Store& store, const std::vector<Member>& members) {
  const Time now = store.clock().now();
  const Time future = now + kClockTolerance;
  Finding finding{.check = "clock", .says = time_text(now)};
  const auto doubt = [&](const std::string& what) {
    finding.verdict = Verdict::warning;
    finding.says += ", but " + what;
    finding.advice = "compare the clocks of the hosts that write (timedatectl)";
  };
  const std::int64_t from_the_future =
      store.count({.status = {Status::pending, Status::retry}, .occurred = {.from = future}});
  if (from_the_future > 0) {
    doubt(grouped(from_the_future) +
          (from_the_future == 1 ? " event that waits" : " events that wait") +
          " occurred later than that");
  } else if (std::any_of(members.begin(), members.end(),
                         [&](const Member& member) { return member.registered_at > future; })) {
    doubt("an instance registered later than that");
  }
  return finding;
}

// What every store can tell. Ends with the first thing that cannot be done.
std::vector<Finding> examine_store(Backend& backend, const Options& options) {
  std::vector<Finding> findings;
  try {
    findings.push_back(judge_schema(backend, backend.schema_status()));
    if (findings.back().verdict == Verdict::failure) return findings;
    const auto store = backend.open();
    const auto members = store->members();
    const bool owned =
        std::any_of(members.begin(), members.end(), [](const Member& m) { return m.alive; });
    const Counts counts = store->counts();
    findings.push_back(check_owner(members));
    findings.push_back(check_pending(counts, owned, store->clock().now()));
    findings.push_back(check_held(backend, store->held_aggregates(2)));
    findings.push_back(check_dead(backend, counts));
    findings.push_back(check_clock(*store, members));
    if (options.skip_integrity && !options.repair) return findings;
    for (Finding& finding : check_rows(backend, *store, options.repair)) {
      findings.push_back(std::move(finding));
    }
  } catch (const std::exception& error) {
    findings.push_back({.check = "store", .verdict = Verdict::failure, .says = error.what()});
  }
  return findings;
}

const char* word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::warning:
      return "warn";
    case Verdict::failure:
      break;
  }
  return "fail";
}

Style style_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return Style::good;
    case Verdict::warning:
      return Style::warning;
    case Verdict::failure:
      break;
  }
  return Style::bad;
}

void print(const Console& console, const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    console.out << console.paint(pad(word_of(finding.verdict), 6), style_of(finding.verdict))
                << pad(finding.check, 11) << printable(finding.says) << '\n';
    if (!finding.advice.empty())
      console.out << pad("", 17) << "-> " << printable(finding.advice) << '\n';
  }
}

int doctor(const Console& console, const Options& options) {
  const auto backend = find_backend(options.store);
  std::vector<Finding> findings = backend->examine({.integrity = !options.skip_integrity});
  const bool usable = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Verdict::failure;
  });
  // Of a store that cannot even be read, the rest would fail for the same reason.
  if (usable) {
    for (Finding& finding : examine_store(*backend, options))
      findings.push_back(std::move(finding));
  }
  const auto count = [&](Verdict verdict) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& finding) { return finding.verdict == verdict; });
  };
  const auto failures = count(Verdict::failure);
  const auto warnings = count(Verdict::warning);
  if (options.store.json) {
    std::vector<JsonObject> checks;
    checks.reserve(findings.size());
    for (const Finding& finding : findings) {
      checks.push_back(JsonObject{}
                           .add("check", finding.check)
                           .add("verdict", word_of(finding.verdict))
                           .add("says", finding.says)
                           .add_or_null("advice", finding.advice));
    }
    console.print(JsonObject{}
                      .add("store", backend->description())
                      .add("healthy", failures == 0)
                      .add("failures", std::int64_t{failures})
                      .add("warnings", std::int64_t{warnings})
                      .add("checks", checks));
  } else {
    console.out << console.paint(printable(backend->description()), Style::bold) << "\n\n";
    print(console, findings);
    const std::string figures = std::to_string(failures) + " failed, " + std::to_string(warnings) +
                                (warnings == 1 ? " warning" : " warnings");
    console.out << '\n'
                << (failures + warnings == 0 ? "Everything is in order." : figures + ".") << '\n';
  }
  return failures == 0 ? kOk : kFailed;
}

}  // namespace

void add_doctor(CLI::App& app, Session& session) {
  CLI::App& command =
      *app.add_subcommand("doctor", "Check the store, and say how to fix what is wrong");
  const auto options = std::make_shared<Options>();
  command.add_flag("--skip-integrity", options->skip_integrity,
                   "Skip the check that reads the whole file or table");
  command.add_flag("--repair", options->repair,
                   "Repair rows whose status and hold contradict each other; without it, doctor "
                   "only says what it would do");
  add_store_options(command, options->store);
  command.footer(
      "Checks the schema, the owners, pending and dead events, and the clock. On SQLite also the\n"
      "file and its folder, the disk and the journal; on servers their version and settings, the\n"
      "user's privileges, free connections, old transactions and the cleanup that they block, and\n"
      "whether numbers keep the order; on PostgreSQL also notifications, on MariaDB and MySQL "
      "also\n"
      "the tables' engine, collation and indexes. Changes nothing without --repair: with it, the\n"
      "hold follows the status (NEW and RETRY become due, DONE and DEAD are finished), and an\n"
      "unknown status becomes DEAD. It never deletes a row.\n"
      "Exit codes: 0 nothing failed (there may be warnings); 1 something failed.\n"
      "\n"
      "Examples:\n"
      "  outbox doctor --db sqlite:shop.db\n"
      "  outbox doctor --db sqlite:shop.db --repair\n"
      "  outbox doctor --db postgresql://shop@db.example/shop --table billing.outbox_event\n"
      "  outbox doctor --db mysql://shop@db.example/shop\n"
      "  outbox doctor --db sqlite:shop.db --json | jq '.checks[] | select(.verdict != \"ok\")'");
  on_chosen(command, session, options, doctor);
}

}  // namespace outbox::cli
