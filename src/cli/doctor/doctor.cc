// `outbox doctor`: is everything in order, and if not, what to do.
#include "cli/doctor/doctor.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "base/quote.h"
#include "base/time_text.h"
#include "cli/arguments/arguments.h"
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

Finding check_schema_of(Backend& backend) {
  const SchemaStatus status = backend.schema_status();
  const std::string version = "version " + std::to_string(status.present);
  if (status.up_to_date()) return fine(version + ", up to date");
  if (status.newer()) {
    return fatal(version + ", newer than this outbox, which knows versions up to " +
                     std::to_string(status.latest),
                 "use the version of outbox that made it, or a later one");
  }
  return fatal(status.present == 0 ? "there are no tables"
                                   : version + " of " + std::to_string(status.latest),
               "outbox migrate up " + backend.arguments());
}

Finding check_owner(const std::vector<Member>& members) {
  const auto alive = [](const Member& member) { return member.alive; };
  const auto first = std::find_if(members.begin(), members.end(), alive);
  if (first != members.end()) {
    const auto others = std::count_if(first + 1, members.end(), alive);
    return fine(printable(first->name) +
                (others > 0 ? " and " + grouped(others) + " more deliver" : " delivers") +
                " (process " + std::to_string(first->pid) + " on " + printable(first->host) + ")");
  }
  if (members.empty()) return fine("no instance delivers now");
  return fine("no instance delivers now; the last was " + printable(members.front().name));
}

Finding check_pending(const Counts& counts, bool owned, Time now) {
  if (counts.pending == 0) return fine("no events");
  std::string events = counted(counts.pending, "event");
  if (counts.pending_bytes > 0) events += " of " + grouped(counts.pending_bytes) + " bytes";
  if (!counts.oldest_pending) return fine(events + ", none of them due");
  const microseconds age = now - *counts.oldest_pending;
  const std::string says = events + ", the oldest due for " + age_text(age);
  if (age <= kPendingIsOld) return fine(says);
  if (!owned) {
    return failure(says + ", and no instance delivers",
                   "start the application that runs the engine");
  }
  return warning(says,
                 "the engine is behind: look in its log for a listener that is unavailable or "
                 "hangs, or give it more workers");
}

Finding check_held(const std::string& arguments, const std::vector<HeldAggregate>& held) {
  if (held.empty()) return fine("no aggregate waits behind a failing event");
  const HeldAggregate& first = held.front();
  return warning("aggregate " + printable(first.aggregate_type + "/" + first.aggregate_id) +
                     (held.size() > 1 ? " and others wait" : " waits") + " behind a failing event",
                 "outbox status " + arguments + " lists them");
}

Finding check_dead(const std::string& arguments, const Counts& counts) {
  if (counts.dead == 0) return fine("no events");
  return warning(counted(counts.dead, "event"),
                 "outbox dead groups " + arguments + " shows the errors");
}

// The store's clock stamps events and judges when they are due.
Finding check_stamps(Store& store, const std::vector<Member>& members) {
  const Time now = store.clock().now();
  const Time future = now + kClockTolerance;
  Finding finding = fine(time_text(now));
  const auto doubt = [&](const std::string& what) {
    finding.verdict = Verdict::warning;
    finding.says += ", but " + what;
    finding.advice = "compare the clocks of the hosts that write (timedatectl)";
  };
  const std::int64_t from_the_future = store.admin().count(
      {.status = {Status::pending, Status::retry}, .occurred = {.from = future}});
  if (from_the_future > 0) {
    doubt(counted(from_the_future, "pending event") + " occurred later than that");
  } else if (std::any_of(members.begin(), members.end(),
                         [&](const Member& member) { return member.registered_at > future; })) {
    doubt("an instance registered later than that");
  }
  return finding;
}

// One receiver of the events.
struct Receiver {
  std::string name{};  // of the subscription; empty if the table has one without a name of its own
  std::shared_ptr<Store> store{};
  std::vector<Member> members{};
  Counts counts{};
};

struct Seen {
  std::shared_ptr<Store> store{};
  std::vector<Receiver> receivers{};
  std::vector<Subscription> stopped{};
};

Seen look_at(Backend& backend) {
  Seen table{.store = backend.open()};
  if (!table.store->capabilities().subscriptions) {
    table.receivers.push_back({.store = table.store});
  } else {
    const std::vector<Subscription> all = table.store->admin().subscriptions();
    for (const Subscription& one : all) {
      if (one.stopped) {
        table.stopped.push_back(one);
        continue;
      }
      const bool plain = all.size() == 1 && one.name == kDefaultSubscription;
      table.receivers.push_back(
          {.name = plain ? "" : one.name, .store = table.store->subscription(one.name)});
    }
  }
  for (Receiver& receiver : table.receivers) {
    receiver.members = receiver.store->admin().members();
    receiver.counts = receiver.store->counts();
  }
  return table;
}

Finding check_stopped(const Subscription& stopped) {
  return warning(quote(stopped.name) + " was stopped: " + printable(stopped.why),
                 "outbox subscriptions restart lets it begin again, drop forgets it");
}

// What every store can tell.
std::vector<Check> store_checks(Backend& backend, bool rows, bool repair) {
  const auto table = std::make_shared<Seen>();  // by the first check
  const auto of_each = [table](const char* name, auto find) -> Check {
    const auto find_all = [table, find] {
      std::vector<Finding> findings;
      for (Receiver& receiver : table->receivers) {
        Finding& finding = findings.emplace_back(find(receiver));
        if (!receiver.name.empty()) finding.says = quote(receiver.name) + ": " + finding.says;
      }
      return findings;
    };
    return {.name = name, .find = find_all, .required = true};
  };
  const auto arguments = [&backend](const Receiver& receiver) {
    const bool named = !receiver.name.empty();
    return backend.arguments() + (named ? " --subscription " + receiver.name : "");
  };
  std::vector<Check> checks{
      {.name = "stopped",
       .find =
           [table, &backend] {
             *table = look_at(backend);
             std::vector<Finding> findings;
             for (const Subscription& one : table->stopped) findings.push_back(check_stopped(one));
             return findings;
           },
       .required = true},
      of_each("owner", [](const Receiver& receiver) { return check_owner(receiver.members); }),
      of_each("pending",
              [](const Receiver& receiver) {
                const bool owned = std::any_of(receiver.members.begin(), receiver.members.end(),
                                               [](const Member& member) { return member.alive; });
                return check_pending(receiver.counts, owned, receiver.store->clock().now());
              }),
      of_each("held",
              [arguments](const Receiver& receiver) {
                return check_held(arguments(receiver), receiver.store->admin().held_aggregates(2));
              }),
      of_each("dead",
              [arguments](const Receiver& receiver) {
                return check_dead(arguments(receiver), receiver.counts);
              }),
      of_each("clock", [](const Receiver& receiver) {
        return check_stamps(*receiver.store, receiver.members);
      })};
  if (rows) {
    checks.push_back({.name = "rows", .find = [table, &backend, repair] {
                        return check_rows(backend, *table->store, repair);
                      }});
  }
  return checks;
}

// --- The command ---

struct Options {
  StoreOptions store{};
  bool skip_integrity = false;
  bool repair = false;
};

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
  std::vector<Check> checks = backend->checks({.integrity = !options.skip_integrity});
  for (Check& check :
       store_checks(*backend, !options.skip_integrity || options.repair, options.repair)) {
    checks.push_back(std::move(check));
  }
  const std::vector<Finding> findings = examine(checks);
  const auto count = [&](Verdict verdict) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& finding) { return finding.verdict == verdict; });
  };
  const auto failures = count(Verdict::failure);
  const auto warnings = count(Verdict::warning);
  if (options.store.json) {
    std::vector<JsonObject> objects;
    objects.reserve(findings.size());
    for (const Finding& finding : findings) {
      objects.push_back(JsonObject{}
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
                      .add("checks", objects));
  } else {
    console.out << console.paint(printable(backend->description()), Style::bold) << "\n\n";
    print(console, findings);
    const std::string figures =
        std::to_string(failures) + " failed, " + counted(warnings, "warning");
    console.out << '\n'
                << (failures + warnings == 0 ? "Everything is in order." : figures + ".") << '\n';
  }
  return failures == 0 ? kOk : kFailed;
}

}  // namespace

Finding fine(std::string says) { return {.says = std::move(says)}; }

Finding warning(std::string says, std::string advice) {
  return {.verdict = Verdict::warning, .says = std::move(says), .advice = std::move(advice)};
}

Finding failure(std::string says, std::string advice) {
  return {.verdict = Verdict::failure, .says = std::move(says), .advice = std::move(advice)};
}

Finding fatal(std::string says, std::string advice) {
  Finding finding = failure(std::move(says), std::move(advice));
  finding.stops = true;
  return finding;
}

std::vector<Finding> examine(const std::vector<Check>& checks) {
  std::vector<Finding> findings;
  for (const Check& check : checks) {
    std::vector<Finding> found;
    try {
      found = check.find();
    } catch (const std::exception& error) {
      found = {check.required ? fatal(error.what(), check.advice)
                              : warning(std::string("cannot be checked: ") + error.what())};
    }
    for (Finding& finding : found) {
      finding.check = check.name;
      findings.push_back(std::move(finding));
      if (findings.back().stops) return findings;
    }
  }
  return findings;
}

Check schema_check(Backend& backend) {
  return {.name = "schema",
          .find = [&backend] { return std::vector{check_schema_of(backend)}; },
          .required = true};
}

Finding check_clock(microseconds there) {
  const microseconds here =
      std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch());
  const microseconds apart = std::chrono::abs(there - here);
  if (apart <= kClockTolerance) return fine("the server's clock agrees with this host's");
  return warning("the server's clock is " + age_text(apart) +
                     (there < here ? " behind" : " ahead of") + " this host's",
                 "synchronize the clocks: the server's decides on leases, and on times of day "
                 "such as deliver_at");
}

Finding check_sessions(std::int64_t left, std::int64_t most, std::int64_t needed,
                       const std::string& remedy) {
  const std::string says = grouped(left) + " of " + grouped(most) + " connections are free";
  if (left >= needed) return fine(says);
  return warning(says, "an engine opens up to " + grouped(needed) + ": " + remedy);
}

Finding check_duties(const std::string& who, const std::vector<Duty>& duties) {
  std::string may;
  std::string lacks;
  for (const Duty& duty : duties) {
    if (duty.lacks.empty()) {
      may += (may.empty() ? "" : ", ") + duty.name;
    } else {
      lacks += "; to " + duty.name + " it lacks " + duty.lacks;
    }
  }
  if (!may.empty()) return fine(who + " may " + may + lacks);
  return fatal(who + " may do nothing here" + lacks,
               "grant " + who +
                   " the privileges of its duty (docs/databases.md), or use the one that " +
                   "owns the tables");
}

Finding check_snapshots(const std::vector<OpenTransaction>& old, std::chrono::seconds limit,
                        const char* advice) {
  if (old.empty()) return fine("no transaction has been open for longer than " + age_text(limit));
  const OpenTransaction& oldest = old.front();
  std::string says = oldest.owner;
  says += oldest.prepared ? " has been prepared for " : " has had a transaction open for ";
  says += age_text(oldest.age);
  if (old.size() > 1) {
    says += ", and " + grouped(static_cast<std::int64_t>(old.size()) - 1) + " more";
  }
  return warning(says, advice);
}

void add_doctor(CLI::App& app, Session& session) {
  CLI::App& command =
      *app.add_subcommand("doctor", "Check the store, and say how to fix what is wrong");
  const auto options = std::make_shared<Options>();
  command.add_flag("--skip-integrity", options->skip_integrity,
                   "Skip the checks that read the whole file or table");
  command.add_flag("--repair", options->repair,
                   "Repair rows whose status and hold contradict each other");
  add_store_options(command, options->store);
  command.footer(
      "Checks the schema, owners, pending and dead events, and the clock. On SQLite also the file\n"
      "and its folder, the disk and the journal; on servers the version and settings, privileges,\n"
      "free connections, old transactions, and whether sequence numbers keep the order; on\n"
      "PostgreSQL also notifications and the vacuum; on MariaDB and MySQL also engine, collation\n"
      "and indexes of the tables.\n"
      "Without --repair it changes nothing, and says what it would do. With it, the hold follows\n"
      "the status: NEW and RETRY become due, DONE and DEAD are finished; an unknown status "
      "becomes\n"
      "DEAD. It never deletes a row.\n"
      "Exit codes: 0 no check failed (there may be warnings); 1 a check failed.\n"
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
