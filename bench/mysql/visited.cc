#include <string>

#include "mysql/bare.h"
#include "mysql/parts.h"

namespace outbox::bench {
namespace {

// Rows and index entries that the server has fetched since it was started, for whomever:
// the library's own connections are out of reach.
double fetched(const BareMysql& bare) {
  const auto counters = bare.query("SHOW GLOBAL STATUS LIKE 'Handler_read_%'");
  double sum = 0;
  while (const char* const* counter = mysql_fetch_row(counters.get())) sum += std::stod(counter[1]);
  return sum;
}

}  // namespace

std::vector<Visited> mysql_visited(const std::string& url, const std::function<void()>& poll) {
  const BareMysql bare(url);
  const double start = fetched(bare);
  const double looked = fetched(bare);
  poll();
  const double polled = fetched(bare);
  const double of_looking = looked - start;
  return {{.what = "rows", .count = polled - looked - of_looking}};
}

}  // namespace outbox::bench
