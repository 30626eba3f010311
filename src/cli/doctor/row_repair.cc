// Rows whose status and hold contradict each other, and what becomes of them.
#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <span>
#include <utility>
#include <variant>

#include "base/quote.h"
#include "cli/doctor/backend.h"
#include "cli/output/text.h"
#include "outbox/error.h"

namespace outbox::cli {
namespace {

// A transaction keeps the rows that it has changed locked; on SQLite all other writers wait.
constexpr std::size_t kRowsOfTransaction = 100;

constexpr std::size_t kNamed = 10;

enum Kind : std::size_t { kPending, kDone, kDead, kUnknown, kKinds };

struct Rule {
  const char* what;
  const char* remedy;  // after "--repair"
};

constexpr std::array<Rule, kKinds> kRules{{
    {"NEW or RETRY, but neither due nor in a lane, so never delivered", "makes them due"},
    {"DONE, but not finished (hold is not NULL)", "finishes them"},
    {"DEAD, but neither finished nor blocking a lane", "finishes them; they can be replayed"},
    {"of an unknown status, so never delivered",
     "makes them DEAD, since they may have been delivered; they can be replayed"},
}};

struct BrokenRow {
  Value id;
  Kind kind;
};

Kind kind_of(const Value& status) {
  const auto* number = std::get_if<std::int64_t>(&status);
  if (number == nullptr) return kUnknown;
  switch (*number) {
    case static_cast<std::int64_t>(Status::pending):
    case static_cast<std::int64_t>(Status::retry):
      return kPending;
    case static_cast<std::int64_t>(Status::done):
      return kDone;
    case static_cast<std::int64_t>(Status::dead):
      return kDead;
    default:
      return kUnknown;
  }
}

std::string shown(const Value& id) {
  if (const auto* text = std::get_if<std::string>(&id)) return quote(*text);
  if (const auto* blob = std::get_if<Blob>(&id)) return quote(blob->data);
  return "?";
}

std::vector<BrokenRow> find(Store& store, const std::string& sql) {
  std::vector<BrokenRow> found;
  for (const ResultRow& row : store.connect()->query(sql, {})) {
    if (row.size() != 2) continue;
    found.push_back({.id = row.at(0), .kind = kind_of(row.at(1))});
  }
  return found;
}

// What was found of one kind.
struct Tally {
  std::size_t rows = 0;
  std::string ids{};

  void add(const BrokenRow& row) {
    if (++rows <= kNamed) ids += (ids.empty() ? "" : ", ") + shown(row.id);
  }
  std::string text(const Rule& rule) const {
    const auto more = static_cast<std::int64_t>(rows) - static_cast<std::int64_t>(kNamed);
    return counted(static_cast<std::int64_t>(rows), "event") + " " + rule.what + ": " + ids +
           (more > 0 ? " and " + grouped(more) + " more" : "");
  }
};
using Tallies = std::array<Tally, kKinds>;

// Rows that the store would not change, and what it said of the last one.
struct Refused {
  std::vector<Value> ids{};
  std::string reason{};

  bool contains(const BrokenRow& row) const {
    return std::find(ids.begin(), ids.end(), row.id) != ids.end();
  }
};

// In one transaction. Adds those that were changed.
void fix_together(Connection& connection, const std::string& sql, std::span<const BrokenRow> rows,
                  Tallies& fixed) {
  std::vector<const BrokenRow*> changed;
  connection.begin();
  for (const BrokenRow& row : rows) {
    if (connection.execute(sql, std::array<Parameter, 1>{row.id}) > 0) changed.push_back(&row);
  }
  connection.commit();
  for (const BrokenRow* row : changed) fixed[row->kind].add(*row);
}

// A row that the store refuses, or that somebody keeps locked, stops only itself. Throws if no
// connection can be had.
void fix(Store& store, const std::string& sql, std::span<const BrokenRow> rows, Tallies& fixed,
         Refused& refused) {
  for (; !rows.empty(); rows = rows.subspan(std::min(kRowsOfTransaction, rows.size()))) {
    const auto part = rows.first(std::min(kRowsOfTransaction, rows.size()));
    try {
      fix_together(*store.connect(), sql, part, fixed);
      continue;
    } catch (const Error&) {
      // Nothing of it has happened: one by one, then.
    }
    for (const BrokenRow& row : part) {
      const auto alone = store.connect();
      try {
        fix_together(*alone, sql, {&row, 1}, fixed);
      } catch (const Error& error) {
        refused.ids.push_back(row.id);
        refused.reason = error.what();
      }
    }
  }
}

std::size_t total(const Tallies& tallies) {
  std::size_t rows = 0;
  for (const Tally& tally : tallies) rows += tally.rows;
  return rows;
}

}  // namespace

std::vector<Finding> check_rows(Backend& backend, Store& store, bool repair) {
  const RepairSql sql = backend.repair_sql();
  Tallies fixed;
  Tallies left;
  Refused refused;
  std::string error_text;
  bool all = true;
  try {
    for (;;) {
      std::vector<BrokenRow> found = find(store, sql.find);
      const std::size_t before = total(fixed);
      if (repair) {
        const auto known =
            std::stable_partition(found.begin(), found.end(),
                                  [&](const BrokenRow& row) { return !refused.contains(row); });
        fix(store, sql.fix, std::span(found.begin(), known), fixed, refused);
        if (total(fixed) > before) continue;  // there may be more
      }
      for (const BrokenRow& row : found) left[row.kind].add(row);
      all = found.size() < RepairSql::kFound;
      break;
    }
  } catch (const std::exception& error) {
    error_text = error.what();  // what was repaired before is said all the same
  }

  std::vector<Finding> findings;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const Rule& rule = kRules.at(kind);
    if (fixed.at(kind).rows > 0) {
      findings.push_back(
          fine("repaired " + fixed.at(kind).text(rule) + " (this " + rule.remedy + ")"));
    }
    if (left.at(kind).rows > 0) {
      findings.push_back(
          failure((all ? "" : "at least ") + left.at(kind).text(rule) +
                      (refused.reason.empty() ? "" : "; not repaired: " + refused.reason),
                  "outbox doctor --repair " + backend.arguments() + " (" + rule.remedy + ")"));
    }
  }
  if (!error_text.empty()) {
    findings.push_back(failure(error_text, repair
                                               ? ""
                                               : "outbox doctor --skip-integrity " +
                                                     backend.arguments() + " (skips this check)"));
  }
  if (findings.empty()) findings.push_back(fine("the status and the hold of each agree"));
  return findings;
}

}  // namespace outbox::cli
