#include "consumer/dialect.h"

#include "base/sql_text.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

// What the dialects spell differently.
struct Spelling {
  std::string_view now;
  std::string_view clock;
  std::string_view after;
  std::string_view before;
  std::string_view left;
  std::string_view insert;
  std::string_view unless_there;
};

// The time is in milliseconds by the host's clock, render_sql so that old versions of SQLite
// understand it.
constexpr Spelling kSqlite{.now =
                               "(CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
                               " + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000)",
                           .clock = "{now}",
                           .after = "({now} + ?)",
                           .before = "({now} - ?)",
                           .left = "(lease_until - {now})",
                           .insert = "INSERT OR IGNORE INTO",
                           .unless_there = ""};

constexpr Spelling kPostgres{
    .now = "clock_timestamp()",
    .clock = "CAST(extract(epoch FROM {now}) * 1000000 AS bigint)",
    .after = "({now} + CAST(? AS bigint) * interval '1 microsecond')",
    .before = "({now} - CAST(? AS bigint) * interval '1 microsecond')",
    .left = "CAST(extract(epoch FROM lease_until - {now}) * 1000000 AS bigint)",
    .insert = "INSERT INTO",
    .unless_there = "ON CONFLICT DO NOTHING"};

constexpr Spelling kMysql{.now = "utc_timestamp(6)",
                          .clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now})",
                          .after = "({now} + INTERVAL ? MICROSECOND)",
                          .before = "({now} - INTERVAL ? MICROSECOND)",
                          .left = "TIMESTAMPDIFF(MICROSECOND, {now}, lease_until)",
                          .insert = "INSERT IGNORE INTO",
                          .unless_there = ""};

const Spelling& spelling_of(const Store& store, std::string_view user) {
  switch (store.capabilities().dialect) {
    case Dialect::sqlite:
      return kSqlite;
    case Dialect::postgres:
      return kPostgres;
    case Dialect::mysql:
      return kMysql;
    case Dialect::none:
      break;
  }
  throw MisuseError(std::string(user) + " needs a store with SQL, and the " + store.description() +
                    " has none: use outbox::sqlite, postgres or mysql");
}

std::string filled(std::string_view text, const Spelling& spelling, const Store& store) {
  return expand_names(text, [&](std::string_view name) {
    if (name == "now") return std::string(spelling.now);
    if (name == "clock") return filled(spelling.clock, spelling, store);
    if (name == "left") return filled(spelling.left, spelling, store);
    if (name == "after ?") return filled(spelling.after, spelling, store);
    if (name == "before ?") return filled(spelling.before, spelling, store);
    if (name == "insert") return std::string(spelling.insert);
    if (name == "unless there") return std::string(spelling.unless_there);
    return store.side_table(name);
  });
}

// PostgreSQL knows values by their numbers.
std::string numbered(std::string_view text) {
  std::string result;
  int number = 0;
  for (const char c : text) {
    result += c;
    if (c == '?') result.replace(result.size() - 1, 1, "$" + std::to_string(++number));
  }
  return result;
}

}  // namespace

std::string render_sql(std::string_view text, const Store& store, std::string_view user) {
  std::string filled_in = filled(text, spelling_of(store, user), store);
  return store.capabilities().dialect == Dialect::postgres ? numbered(filled_in) : filled_in;
}

}  // namespace outbox::internal
