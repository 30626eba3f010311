#include <cstddef>
#include <stdexcept>
#include <string>

#include "harness.h"
#include "mysql/bare.h"
#include "mysql/parts.h"

namespace outbox::bench {
namespace {

// The table lies in the order of seq, so nothing reads it faster. The library cannot read
// like that: it would miss what others commit late.
std::string select_after(const std::string& seq) {
  return expanded("SELECT {columns} FROM {table} FORCE INDEX (PRIMARY) WHERE seq > " + seq +
                  " AND hold = 0 AND status IN (0, 2) ORDER BY seq LIMIT 500");
}

std::string update(const std::string& seqs, Finish finish) {
  return expanded(finish == Finish::update
                      ? "UPDATE {table} SET status = 1, done_at = utc_timestamp(6), hold = NULL"
                      : "DELETE FROM {table}") +
         " WHERE seq IN (" + seqs + ") AND status IN (0, 2)";
}

// Of all columns, as a listener that wants them all would see them.
std::size_t bytes_of_row(MYSQL_RES* rows) {
  const unsigned long* lengths = mysql_fetch_lengths(rows);
  std::size_t bytes = 0;
  for (unsigned column = 0; column < mysql_num_fields(rows); ++column) bytes += lengths[column];
  return bytes;
}

}  // namespace

double mysql_limit(const std::string& url, std::size_t events, Finish finish) {
  const BareMysql bare(url);
  std::size_t delivered = 0;
  std::size_t bytes = 0;
  std::string last = "0";
  const double seconds = seconds_of([&] {
    for (;;) {
      const auto rows = bare.query(select_after(last));
      if (mysql_num_rows(rows.get()) == 0) break;
      std::string seqs;
      while (const char* const* row = mysql_fetch_row(rows.get())) {
        last = row[0];
        bytes += bytes_of_row(rows.get());
        seqs.append(seqs.empty() ? "" : ",").append(last);
        ++delivered;
      }
      bare.query(update(seqs, finish));
    }
  });
  if (delivered != events || bytes == 0) throw std::runtime_error("limit: not all was delivered");
  return seconds;
}

}  // namespace outbox::bench
