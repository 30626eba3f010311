// Rows as any program may have written them: decoded, or a defect. A line of
// the input is one column in the order of kRowColumnNames, as a type and a value:
// `n` NULL, `i12` INTEGER, `r1.5` REAL, `t...` TEXT, `b...` BLOB, with escapes.h
// in the last two. Columns without a line are what most rows have in them.
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "base/time_text.h"
#include "client/sqlite/handle.h"
#include "escapes.h"
#include "outbox/error.h"
#include "outbox/sqlite.h"
#include "store/sqlite/rows.h"
#include "target.h"

namespace outbox::sqlite {
namespace {

using fuzz::require;

constexpr Time kNow{std::chrono::microseconds{1'800'000'000'000'000}};

const std::array<Value, kRowColumns> kUsual{std::int64_t{1},
                                            std::int64_t{0},
                                            "id",
                                            "Type",
                                            nullptr,
                                            nullptr,
                                            nullptr,
                                            std::int64_t{0},
                                            std::int64_t{0},
                                            std::int64_t{0},
                                            kNow.time_since_epoch().count(),
                                            kNow.time_since_epoch().count(),
                                            nullptr,
                                            nullptr,
                                            nullptr,
                                            "{}"};

Value value_of(std::string_view line) {
  const std::string_view rest = line.substr(line.empty() ? 0 : 1);
  switch (line.empty() ? 'n' : line.front()) {
    case 'i': {
      std::int64_t number = 0;
      std::from_chars(rest.data(), rest.data() + rest.size(), number);
      return number;
    }
    case 'r':
      return std::strtod(std::string(rest).c_str(), nullptr);
    case 't':
      return fuzz::unescape(rest);
    case 'b':
      return Blob{fuzz::unescape(rest)};
    default:
      return nullptr;
  }
}

std::string placeholders() {
  std::string text = "?1";
  for (int i = 2; i <= kRowColumns; ++i) text += ", ?" + std::to_string(i);
  return text;
}

// A connection in memory with the table of events on it.
class Table {
 public:
  Table() {
    sqlite3* db = nullptr;
    require(sqlite3_open(":memory:", &db) == SQLITE_OK, "a database in memory opens");
    db_.reset(db);
    require(sqlite3_exec(db, schema_sql().c_str(), nullptr, nullptr, nullptr) == SQLITE_OK,
            "the schema is SQL");
  }

  Statement prepare(const std::string& sql) { return {db_.get(), sql, "fuzz", where_}; }

 private:
  const std::string where_ = "memory";
  DatabaseHandle db_;
};

void check_decoded(const Run& run, const Row& row) {
  require(row.event.occurred_at() == Time{} || row.event.occurred_at() >= kEarliestTime,
          "times are within bounds");
  require(row.event.available_at() <= kLatestTime, "times are within bounds");
  require(row.attempts >= 0 && row.attempts < std::numeric_limits<int>::max(),
          "attempts can be counted on");
  require(row.crashes >= 0 && row.crashes < std::numeric_limits<int>::max(),
          "crashes can be counted on");
  require(!row.event.aggregate_type().empty(), "there is always an aggregate type");
  if (!row.defect.empty()) return;
  require(!row.event.type().empty(), "an event has a type");
  require(row.event.payload() == run.bytes(kRowColumns - 1), "the payload is what the row holds");
  const auto codec = default_json_codec();
  require(codec->decode(codec->encode(row.event.headers())) == row.event.headers(),
          "headers can be written again");
}

void bind_all(Run& run, const std::array<Value, kRowColumns>& values) {
  for (int i = 0; i < kRowColumns; ++i) run.bind_value(i + 1, values[static_cast<std::size_t>(i)]);
}

// Straight, so that every type arrives in every column.
void check_values(Table& table, const std::array<Value, kRowColumns>& values) {
  static Statement statement = table.prepare("SELECT " + placeholders());
  Run run(statement);
  bind_all(run, values);
  require(run.step(), "there is one row");
  check_decoded(run, decode_row(run, *default_json_codec(), kNow));
}

// By way of the table, whose columns convert what they can.
void check_stored(Table& table, const std::array<Value, kRowColumns>& values) {
  static Statement insert =
      table.prepare("INSERT INTO outbox_event (" + std::string(kRowColumnNames) + ") VALUES (" +
                    placeholders() + ")");
  static Statement select =
      table.prepare("SELECT " + std::string(kRowColumnNames) + " FROM outbox_event");
  static Statement clear = table.prepare("DELETE FROM outbox_event");
  try {
    Run run(insert);
    bind_all(run, values);
    run.finish();
  } catch (const Error&) {
    return;  // NULL where none may be, or a seq that is no number
  }
  {
    Run run(select);
    require(run.step(), "there is one row");
    check_decoded(run, decode_row(run, *default_json_codec(), kNow));
  }
  Run(clear).finish();
}

}  // namespace
}  // namespace outbox::sqlite

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outbox;
  static sqlite::Table table;
  std::array<Value, sqlite::kRowColumns> values = sqlite::kUsual;
  std::size_t column = 0;
  for (const std::string_view line : fuzz::lines_of(fuzz::text_of(data, size))) {
    if (column == values.size()) break;
    if (line != "-") values[column] = sqlite::value_of(line);
    ++column;
  }
  sqlite::check_values(table, values);
  sqlite::check_stored(table, values);
  return 0;
}
