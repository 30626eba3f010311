// libmariadb with as little as possible around it, and the library on the same server.
#include "subject.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/mysql/libmariadb.h"
#include "client/mysql/statement.h"
#include "events.h"
#include "harness.h"
#include "outbox/mysql.h"
#include "store/mysql/sql.h"
#include "store/mysql/store_config.h"

namespace outbox::bench {
namespace {

// A connection with the settings of the library's own for the same use. Used by one
// thread at a time. Throws std::runtime_error for whatever fails.
class BareMysql final : public BareConnection {
 public:
  explicit BareMysql(const std::string& url, mysql::Use use = mysql::Use::engine);

  // One statement without parameters; its rows as text, null if it has none.
  mysql::ResultHandle query(std::string_view sql) const;
  void exec(const std::string& sql) const override { query(sql); }

  // One that returns no rows; as expanded() makes it.
  mysql::StatementHandle prepare(std::string_view sql) const;
  static void run(MYSQL_STMT* statement, const mysql::Parameters& values);

 private:
  mysql::ConnectionHandle connection_;
};

// Fills in `{table}` and the like, as in the library's own statements.
std::string expanded(std::string_view sql) {
  return mysql::expand(sql, mysql::TableName::parse(kTable));
}

BareMysql::BareMysql(const std::string& url, mysql::Use use)
    : connection_(mysql::StoreConfig(url).connect(use).handle) {}

mysql::ResultHandle BareMysql::query(std::string_view sql) const {
  MYSQL* connection = connection_.get();
  const bool sent = mysql_real_query(connection, sql.data(), sql.size()) == 0;
  mysql::ResultHandle rows(sent ? mysql_store_result(connection) : nullptr);
  if (mysql_errno(connection) != 0) {
    throw std::runtime_error(std::string(sql) + ": " + mysql_error(connection));
  }
  return rows;
}

mysql::StatementHandle BareMysql::prepare(std::string_view sql) const {
  const std::string text = expanded(sql);
  mysql::StatementHandle statement(mysql_stmt_init(connection_.get()));
  if (!statement || mysql_stmt_prepare(statement.get(), text.data(), text.size()) != 0) {
    throw std::runtime_error(text + ": " + mysql_error(connection_.get()));
  }
  return statement;
}

void BareMysql::run(MYSQL_STMT* statement, const mysql::Parameters& values) {
  mysql::Parameters::Binds binds = values.binds();
  if (mysql_stmt_bind_param(statement, binds.data()) != 0 || mysql_stmt_execute(statement) != 0) {
    throw std::runtime_error(mysql_stmt_error(statement));
  }
}

constexpr std::size_t kConnections = 16;

// A database of the server for each; their names are URLs.
class MysqlSubject final : public Subject {
 public:
  explicit MysqlSubject(std::string url) : url_(std::move(url)) {}

  std::string name() const override { return "mysql"; }

  std::vector<Trait> traits() const override { return {Trait::server}; }

  Bars bars() const override {
    return {.drain_keep = 0.6,
            .drain_delete = 0.5,
            .drain_naive = 10,
            .row_claims_naive = 5,
            .write = 0.93,
            .process_p50 = 5'000,
            .steady_process_p50 = 5'000};
  }

  std::vector<std::size_t> writers() const override { return {1, 4, 16}; }

  std::string about() override {
    const auto settings = BareMysql(url_).query(
        "SELECT version(), @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog");
    const char* const* values = mysql_fetch_row(settings.get());
    return std::string(values[0]) + " at " + url_ +
           "; innodb_flush_log_at_trx_commit = " + values[1] + ", log_bin = " + values[2] +
           ", sync_binlog = " + values[3];
  }

  std::string fresh() override {
    const std::string name = "bench_" + std::to_string(++databases_);
    administer("DROP DATABASE IF EXISTS " + name);
    administer("CREATE DATABASE " + name);
    return url_.substr(0, url_.rfind('/') + 1) + name;
  }
  std::string copy(const std::string& database) override;
  void remove(const std::string& database) override {
    administer("DROP DATABASE " + database.substr(database.rfind('/') + 1));
  }

  void fill(const std::string& database, const LanePage& filling) override;
  void tidy_up(const std::string& database) override;

  std::shared_ptr<Store> open(const std::string& database, Opening opening) override {
    const bool keep = opening.finish == Finish::update;
    return mysql::open(database, {.on_done = keep ? mysql::OnDone::keep : mysql::OnDone::remove,
                                  .connections = kConnections});
  }

  std::unique_ptr<BareConnection> connect(const std::string& database) override {
    return std::make_unique<BareMysql>(database, mysql::Use::transactions);
  }
  std::unique_ptr<BareWriter> writer(const std::string& database) override;
  double drain_naive(const std::string& database, std::size_t events) override;
  double drain_limit(const std::string& database, std::size_t events, Finish finish) override;
  double drain_position_limit(const std::string&, std::size_t) override {
    throw std::runtime_error("there is no progress by position");
  }
  double logged(const std::string&) override { return 0; }
  std::vector<Visited> visited(const std::string& database, std::size_t rows,
                               const std::function<void()>& poll) override;

 private:
  // On a connection of its own, which a process forked off must not share.
  void administer(const std::string& statement) const { BareMysql(url_).exec(statement); }

  const std::string url_;
  std::atomic<int> databases_{0};
};

// There is no series of numbers in SQL that both MariaDB and MySQL know; so these are
// all of six digits. HOLD stands for an expression.
constexpr std::string_view kFill = R"sql(
INSERT INTO {table} (event_id, event_type, aggregate_type, aggregate_id, status, hold, done_at,
                     payload)
WITH digit (n) AS (SELECT 0 UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL
                   SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL
                   SELECT 8 UNION ALL SELECT 9),
number (i) AS (SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n + 100000 * f.n
               FROM digit AS a, digit AS b, digit AS c, digit AS d, digit AS e, digit AS f)
SELECT lpad(i + first.seq, 26, '0'), 'Placed', 'Order', concat('order-', i % ?), ?, HOLD,
       if(? = 1, utc_timestamp(6), NULL), replace(?, repeat('0', 16), lpad(i, 16, '0'))
FROM (SELECT coalesce(max(seq), 0) AS seq FROM {table}) AS first, number
WHERE i < ? ORDER BY i
)sql";

constexpr std::string_view kHold = "HOLD";

void MysqlSubject::fill(const std::string& url, const LanePage& filling) {
  mysql::migrate(url);
  std::string sql(kFill);
  sql.replace(sql.find(kHold), kHold.size(), filling.hold);
  const BareMysql bare(url);
  BareMysql::run(bare.prepare(sql).get(),
                 mysql::Parameters(filling.aggregates, filling.status, filling.status, payload(0),
                                   filling.rows));
}

// With the columns that can be written, separated by commas.
using Tables = std::vector<std::pair<std::string, std::string>>;

Tables tables_in(const BareMysql& bare) {
  const auto rows = bare.query(
      "SELECT table_name, group_concat(column_name) FROM information_schema.columns "
      "WHERE table_schema = database() AND coalesce(generation_expression, '') = '' "
      "GROUP BY table_name");
  Tables tables;
  while (const char* const* row = mysql_fetch_row(rows.get())) tables.emplace_back(row[0], row[1]);
  return tables;
}

void copy_table(const BareMysql& bare, const std::string& original, const std::string& name,
                const std::string& columns) {
  const std::string source = original + "." + name;
  bare.exec("CREATE TABLE " + name + " LIKE " + source);
  bare.exec("INSERT INTO " + name + " (" + columns + ") SELECT " + columns + " FROM " + source);
}

// What was written to the tables reaches the disk.
void write_out(const BareMysql& bare, const Tables& tables) {
  std::string names;
  for (const auto& [name, columns] : tables) names.append(names.empty() ? "" : ", ").append(name);
  bare.exec("FLUSH TABLES " + names + " FOR EXPORT");
  bare.exec("UNLOCK TABLES");
}

std::string MysqlSubject::copy(const std::string& database) {
  std::string result = fresh();
  const BareMysql bare(result);
  const std::string original = database.substr(database.rfind('/') + 1);
  const Tables tables = tables_in(BareMysql(database));
  for (const auto& [name, columns] : tables) copy_table(bare, original, name, columns);
  write_out(bare, tables);
  return result;
}

void MysqlSubject::tidy_up(const std::string& url) {
  const BareMysql bare(url);
  bare.exec("ANALYZE TABLE " + std::string(kTable));
  write_out(bare, tables_in(bare));
}

mysql::Parameters values(std::uint64_t number) {
  const Time now = std::chrono::time_point_cast<Time::duration>(std::chrono::system_clock::now());
  constexpr std::int64_t kReady = 0;
  constexpr bool kClaimed = false;
  return mysql::Parameters(event_id(number), "Placed", "Order", aggregate_id(number), nullptr,
                           nullptr, nullptr, payload(number), nullptr, now, now, nullptr, kReady,
                           nullptr, kClaimed);
}

class MysqlWriter final : public BareWriter {
 public:
  explicit MysqlWriter(const std::string& url)
      : bare_(url, mysql::Use::transactions), insert_(bare_.prepare(mysql::sql::kInsert<1>.text)) {}

  void write(std::uint64_t number) override {
    bare_.exec("BEGIN");
    BareMysql::run(insert_.get(), values(number));
    bare_.exec("COMMIT");
  }

 private:
  const BareMysql bare_;
  const mysql::StatementHandle insert_;
};

std::unique_ptr<BareWriter> MysqlSubject::writer(const std::string& url) {
  mysql::migrate(url);
  return std::make_unique<MysqlWriter>(url);
}

constexpr const char* kClaim = R"sql(
UPDATE {table} SET locked_by = 'naive', locked_at = utc_timestamp(6)
WHERE status IN (0, 2) AND hold = 0 AND locked_by IS NULL ORDER BY seq LIMIT 100
)sql";

// An UPDATE returns no rows.
constexpr const char* kClaimed = R"sql(
SELECT {columns} FROM {table}
WHERE status IN (0, 2) AND locked_by = 'naive' ORDER BY seq LIMIT 100
)sql";

constexpr const char* kDone = R"sql(
UPDATE {table} SET status = 1, done_at = utc_timestamp(6), hold = NULL
WHERE seq = ? AND status IN (0, 2)
)sql";

double MysqlSubject::drain_naive(const std::string& url, std::size_t events) {
  const BareMysql bare(url);
  const std::string claim = expanded(kClaim);
  const std::string claimed = expanded(kClaimed);
  const auto done = bare.prepare(kDone);
  std::size_t delivered = 0;
  return seconds_of([&] {
    while (delivered < events) {
      bare.query(claim);
      const auto rows = bare.query(claimed);
      if (mysql_num_rows(rows.get()) == 0) throw std::runtime_error("naive: nothing left to claim");
      while (const char* const* row = mysql_fetch_row(rows.get())) {
        BareMysql::run(done.get(), mysql::Parameters(std::stoll(row[0])));
        ++delivered;
      }
    }
  });
}

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

double MysqlSubject::drain_limit(const std::string& url, std::size_t events, Finish finish) {
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

// Rows and index entries that the server has fetched since it was started, for whomever:
// the library's own connections are out of reach.
double fetched(const BareMysql& bare) {
  const auto counters = bare.query("SHOW GLOBAL STATUS LIKE 'Handler_read_%'");
  double sum = 0;
  while (const char* const* counter = mysql_fetch_row(counters.get())) sum += std::stod(counter[1]);
  return sum;
}

std::vector<Visited> MysqlSubject::visited(const std::string& url, std::size_t /*rows*/,
                                           const std::function<void()>& poll) {
  const BareMysql bare(url);
  const double start = fetched(bare);
  const double looked = fetched(bare);
  poll();
  const double polled = fetched(bare);
  const double of_looking = looked - start;
  return {{.what = "rows", .count = polled - looked - of_looking}};
}

}  // namespace

std::unique_ptr<Subject> mysql_subject() {
  const char* url = std::getenv("OUTBOX_TEST_MYSQL");
  if (url == nullptr) {
    throw std::runtime_error("OUTBOX_TEST_MYSQL names no server; run scripts/bench mysql");
  }
  return std::make_unique<MysqlSubject>(url);
}

}  // namespace outbox::bench
