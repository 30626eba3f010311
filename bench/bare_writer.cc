#include "bare_writer.h"

#include <chrono>

#include "harness.h"
#include "outbox/sqlite.h"
#include "store/sqlite/sql.h"

namespace outbox::bench {
namespace {

const std::string& with_tables(const std::string& path) {
  sqlite::open(path);
  return path;
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

BareWriter::BareWriter(const std::string& path)
    : bare_(with_tables(path)),
      begin_(bare_.prepare("BEGIN IMMEDIATE")),
      insert_(bare_.prepare(sqlite::sql::kInsert<1>.text)),
      commit_(bare_.prepare("COMMIT")) {}

void BareWriter::write(std::uint64_t number) {
  const std::string text = payload(number);
  std::string id = std::to_string(number);
  id.insert(0, 26 - id.size(), '0');  // as long as the library's own
  const std::string aggregate = "order-" + std::to_string(number % 1'000);
  const auto bind_text = [&](int index, const std::string& value) {
    sqlite3_bind_text(insert_.get(), index, value.data(), static_cast<int>(value.size()),
                      SQLITE_STATIC);
  };
  static const std::string kType = "Placed";
  static const std::string kAggregateType = "Order";
  bind_text(1, id);
  bind_text(2, kType);
  bind_text(3, kAggregateType);
  bind_text(4, aggregate);
  bind_text(8, text);
  sqlite3_bind_int64(insert_.get(), 9, now());
  sqlite3_bind_int64(insert_.get(), 10, now());
  sqlite3_bind_int64(insert_.get(), 11, 0);
  run(begin_.get());
  run(insert_.get());
  run(commit_.get());
}

double BareWriter::rate(std::size_t transactions) {
  const double seconds = seconds_of([&] {
    for (std::size_t n = 0; n < transactions; ++n) write(n);
  });
  return static_cast<double>(transactions) / seconds;
}

}  // namespace outbox::bench
