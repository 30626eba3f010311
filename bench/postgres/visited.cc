#include <regex>
#include <string>

#include "postgres/bare.h"
#include "postgres/parts.h"
#include "store/postgres/names.h"
#include "store/postgres/sql.h"

namespace outbox::bench {
namespace {

constexpr const char* kShardArray = "'{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}'";
constexpr const char* kFloors = "'{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}'";

struct Count {
  double rows = 0;
  double pages = 0;
};

double number(const std::smatch& match, std::size_t group) {
  return match[group].matched ? std::stod(match[group]) : 0;
}

// What the server says of a statement that it has run: the pages of the whole stand on
// the first such line, the rows on that of each scan.
Count counted(const postgres::ResultHandle& explained) {
  static const std::regex kPages(R"(Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?)");
  static const std::regex kRows(R"(Scan .* on outbox_event.*\(actual rows=([\d.]+) loops=(\d+)\))");
  Count count;
  bool whole = true;
  for (int row = 0; row < PQntuples(explained.get()); ++row) {
    const std::string line = PQgetvalue(explained.get(), row, 0);
    if (line.starts_with("Planning")) break;
    std::smatch match;
    if (std::regex_search(line, match, kRows)) count.rows += number(match, 1) * number(match, 2);
    if (whole && std::regex_search(line, match, kPages)) {
      count.pages = number(match, 1) + number(match, 2);
      whole = false;
    }
  }
  return count;
}

}  // namespace

// The store's statements are out of reach; so the very same ones run here, on a
// connection of our own.
std::vector<Visited> postgres_visited(const std::string& url, std::size_t rows) {
  const BarePostgres bare(url);
  bare.go_by_index_alone();
  Count total;
  const auto count = [&](const postgres::Sql& sql, const std::string& types,
                         const std::string& values) {
    bare.exec("PREPARE poll (" + types + ") AS " +
              postgres::expand(sql.text, postgres::TableName::parse(kTable)));
    const Count one = counted(bare.query(
        "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE poll (" + values + ")"));
    bare.exec("DEALLOCATE poll");
    total.rows += one.rows;
    total.pages += one.pages;
  };
  const std::string limit = std::to_string(rows);
  const std::string shards = kShardArray;
  count(postgres::sql::kReady, "bigint[], bigint[], bigint", shards + "," + kFloors + "," + limit);
  count(postgres::sql::kFirstDue, "bigint[]", shards);
  return {{.what = "rows", .count = total.rows}, {.what = "pages", .count = total.pages}};
}

}  // namespace outbox::bench
