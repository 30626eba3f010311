#include "cli/stores/row_repair.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <variant>

#include "cli/output/figures.h"
#include "core/quote.h"

namespace outbox::cli {
namespace {

using Verdict = Finding::Verdict;

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
    case static_cast<std::int64_t>(Status::fresh):
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
  for (ResultRow& row : store.connect()->query(sql, {})) {
    if (row.size() != 2) continue;
    const Kind kind = kind_of(row[1]);
    found.push_back({.id = std::move(row[0]), .kind = kind});
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
    return grouped(static_cast<std::int64_t>(rows)) + (rows == 1 ? " event" : " events") + " " +
           rule.what + ": " + ids + (more > 0 ? " and " + grouped(more) + " more" : "");
  }
};
using Tallies = std::array<Tally, kKinds>;

// Adds those that were changed.
void fix(Store& store, const std::string& sql, const std::vector<BrokenRow>& rows, Tallies& fixed) {
  const auto connection = store.connect();
  for (std::size_t first = 0; first < rows.size(); first += kRowsOfTransaction) {
    const std::size_t end = std::min(first + kRowsOfTransaction, rows.size());
    std::vector<const BrokenRow*> changed;
    connection->begin();
    for (std::size_t i = first; i < end; ++i) {
      if (connection->execute(sql, std::array{rows[i].id}) > 0) changed.push_back(&rows[i]);
    }
    connection->commit();
    for (const BrokenRow* row : changed) fixed[row->kind].add(*row);
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
  for (;;) {
    const std::vector<BrokenRow> found = find(store, sql.find);
    const std::size_t before = total(fixed);
    if (repair) fix(store, sql.fix, found, fixed);
    if (!found.empty() && total(fixed) > before) continue;  // there may be more
    for (const BrokenRow& row : found) left[row.kind].add(row);
    break;
  }

  std::vector<Finding> findings;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const Rule& rule = kRules.at(kind);
    if (fixed.at(kind).rows > 0) {
      findings.push_back(
          {.check = "rows",
           .says = "repaired " + fixed.at(kind).text(rule) + " (this " + rule.remedy + ")"});
    }
    if (left.at(kind).rows > 0) {
      findings.push_back(
          {.check = "rows",
           .verdict = Verdict::failure,
           .says = left.at(kind).text(rule),
           .advice = "outbox doctor --repair " + backend.arguments() + " " + rule.remedy});
    }
  }
  if (findings.empty()) {
    findings.push_back({.check = "rows", .says = "the status and the hold of each go together"});
  }
  return findings;
}

}  // namespace outbox::cli
