// libpq with as little as possible around it, and the library on the same server.
#include "subject.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/postgres/libpq.h"
#include "client/postgres/settings.h"
#include "client/postgres/statement.h"
#include "events.h"
#include "harness.h"
#include "model/shards.h"
#include "outbox/postgres.h"
#include "store/postgres/sql.h"
#include "store/postgres/store_config.h"

namespace outbox::bench {
namespace {

// A connection. Used by one thread at a time. Throws std::runtime_error for
// whatever fails.
class BarePostgres final : public BareConnection {
 public:
  explicit BarePostgres(const std::string& url);

  // One or several statements without parameters; the last result, as text.
  postgres::ResultHandle query(const std::string& sql) const;
  void exec(const std::string& sql) const override { query(sql); }

  // `{table}` and the like as in the library's own statements.
  void prepare(const std::string& name, std::string_view sql,
               const postgres::Parameters& types) const;
  postgres::Result run(const std::string& name, const postgres::Parameters& values) const;

  // What the engine's own connections are set to.
  void go_by_index_alone() const;

 private:
  postgres::ResultHandle checked(PGresult* result, std::string_view what) const;

  postgres::ConnectionHandle connection_;
};

BarePostgres::BarePostgres(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
  if (PQstatus(connection_.get()) != CONNECTION_OK) {
    throw std::runtime_error(PQerrorMessage(connection_.get()));
  }
  PQsetNoticeProcessor(
      connection_.get(), [](void*, const char*) {}, nullptr);
}

postgres::ResultHandle BarePostgres::checked(PGresult* result, std::string_view what) const {
  postgres::ResultHandle handle(result);
  const ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    throw std::runtime_error(std::string(what) + ": " + PQerrorMessage(connection_.get()));
  }
  return handle;
}

postgres::ResultHandle BarePostgres::query(const std::string& sql) const {
  return checked(PQexec(connection_.get(), sql.c_str()), sql);
}

void BarePostgres::prepare(const std::string& name, std::string_view sql,
                           const postgres::Parameters& types) const {
  const std::string text = postgres::expand(sql, postgres::TableName::parse(kTable));
  checked(PQprepare(connection_.get(), name.c_str(), text.c_str(), types.size(), types.types()),
          text);
}

postgres::Result BarePostgres::run(const std::string& name,
                                   const postgres::Parameters& values) const {
  constexpr int kBinary = 1;
  const postgres::Parameters::Arrays arrays = values.arrays();
  return postgres::Result(
      checked(PQexecPrepared(connection_.get(), name.c_str(), values.size(), arrays.values.data(),
                             arrays.lengths.data(), arrays.formats.data(), kBinary),
              name));
}

void BarePostgres::go_by_index_alone() const {
  exec(postgres::session_settings(postgres::Use::engine, PQserverVersion(connection_.get()), {},
                                  true));
}

constexpr std::size_t kConnections = 16;

// A database of the server for each; their names are URLs.
class PostgresSubject final : public Subject {
 public:
  explicit PostgresSubject(std::string url) : url_(std::move(url)) {}

  std::string name() const override { return "postgres"; }

  std::vector<Trait> traits() const override {
    return {Trait::server, Trait::insert_at_commit, Trait::notify, Trait::server_cpu,
            Trait::position};
  }

  Bars bars() const override {
    return {.drain_keep = 0.6,
            .drain_delete = 0.5,
            .drain_naive = 20,
            .position = 3.5,
            .row_claims_naive = 8,
            .write = 0.95,
            .ordered_p50 = 250,
            .unordered_p50 = 30,
            .process_p50 = 1'000,
            .steady_process_p50 = 700,
            .steady_process_p99 = 5'000};
  }

  std::vector<std::size_t> writers() const override { return {1, 4, 16}; }

  std::string about() override {
    const auto settings = BarePostgres(url_).query(
        "SELECT current_setting('server_version'), current_setting('fsync'), "
        "current_setting('synchronous_commit')");
    const auto value = [&](int column) {
      return std::string(PQgetvalue(settings.get(), 0, column));
    };
    return "PostgreSQL " + value(0) + " at " + url_ + "; fsync = " + value(1) +
           ", synchronous_commit = " + value(2);
  }

  std::string fresh() override { return create("template0"); }
  std::string copy(const std::string& database) override { return create(name_of(database)); }
  void remove(const std::string& database) override {
    administer("DROP DATABASE " + name_of(database) + " WITH (FORCE)");
  }

  void fill(const std::string& database, const LanePage& filling) override;
  void tidy_up(const std::string& database) override {
    BarePostgres(database).exec("VACUUM (ANALYZE) outbox_event");
  }

  std::shared_ptr<Store> open(const std::string& database, Opening opening) override {
    const bool keep = opening.finish == Finish::update;
    return postgres::open(database,
                          {.on_done = keep ? postgres::OnDone::keep : postgres::OnDone::remove,
                           .progress = asked(opening.progress),
                           .connections = kConnections,
                           .insert_at_commit = opening.insert_at_commit,
                           .notify = opening.notify});
  }

  double server_cpu() override;
  std::unique_ptr<BareConnection> connect(const std::string& database) override {
    return std::make_unique<BarePostgres>(database);
  }
  std::unique_ptr<BareWriter> writer(const std::string& database) override;
  double drain_naive(const std::string& database, std::size_t events) override;
  double drain_limit(const std::string& database, std::size_t events, Finish finish) override;
  double drain_position_limit(const std::string& database, std::size_t events) override;
  double logged(const std::string& database) override {
    const auto bytes = BarePostgres(database).query("SELECT pg_current_wal_insert_lsn() - '0/0'");
    return std::stod(PQgetvalue(bytes.get(), 0, 0));
  }
  std::vector<Visited> visited(const std::string& database, std::size_t rows,
                               const std::function<void()>& poll) override;

 private:
  static std::optional<Progress> asked(Progress progress) {
    return progress == Progress::row ? std::nullopt : std::optional(progress);
  }

  // By copying files, between two checkpoints: what is measured next has no part of it.
  std::string create(const std::string& original) {
    const std::string name = "bench_" + std::to_string(++databases_);
    administer("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)");
    administer("CREATE DATABASE " + name + " TEMPLATE " + original + " STRATEGY file_copy");
    return url_.substr(0, url_.rfind('/') + 1) + name;
  }

  static std::string name_of(const std::string& database) {
    return database.substr(database.rfind('/') + 1);
  }

  // On a connection of its own, which a process forked off must not share.
  void administer(const std::string& statement) const { BarePostgres(url_).exec(statement); }

  const std::string url_;
  std::atomic<int> databases_{0};
};

// What /proc/PID/stat says.
struct Process {
  long parent = 0;
  double seconds = 0;
  double with_ended_children = 0;
};

std::optional<Process> process_at(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;  // it has just ended
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  std::string state;
  Process process;
  rest >> state >> process.parent;
  long ignored = 0;
  for (int field = 5; field <= 13; ++field) rest >> ignored;
  double own[2];
  double of_children[2];
  rest >> own[0] >> own[1] >> of_children[0] >> of_children[1];
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  process.seconds = (own[0] + own[1]) / ticks;
  process.with_ended_children = process.seconds + (of_children[0] + of_children[1]) / ticks;
  return process;
}

double PostgresSubject::server_cpu() {
  const auto file = BarePostgres(url_).query("SELECT pg_read_file('postmaster.pid')");
  const long postmaster = std::stol(PQgetvalue(file.get(), 0, 0));
  double seconds = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto process = process_at(entry.path());
    if (!process) continue;
    if (std::stol(name) == postmaster) seconds += process->with_ended_children;
    if (process->parent == postmaster) seconds += process->seconds;
  }
  return seconds;
}

// As payload(), in SQL.
constexpr const char* kFill = R"sql(
INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, status, hold, done_at,
                          payload)
SELECT lpad((i + first.seq)::text, 26, '0'), 'Placed', 'Order', 'order-' || i % $1, $2, HOLD,
       CASE WHEN $2 = 1 THEN now() END, '{"n":"' || lpad(i::text, 16, '0') || '","x":"' || $3 || '"}'
FROM (SELECT coalesce(max(seq), 0) AS seq FROM outbox_event) AS first,
     generate_series(0, $4 - 1) AS i
ORDER BY i
)sql";

std::string with(std::string text, const std::string& name, const std::string& value) {
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name)) {
    text.replace(at, name.size(), value);
  }
  return text;
}

void PostgresSubject::fill(const std::string& url, const LanePage& filling) {
  if (filling.progress == Progress::row) {
    postgres::migrate(url);
  } else {
    open(url, {.progress = filling.progress});
  }
  std::string text = with(kFill, "HOLD", filling.hold);
  text = with(text, "$1", std::to_string(filling.aggregates));
  text = with(text, "$2", std::to_string(filling.status));
  text = with(text, "$3", "'" + padding() + "'");
  text = with(text, "$4", std::to_string(filling.rows));
  BarePostgres(url).exec(text);
}

using Text = std::optional<std::string_view>;
using Data = std::optional<postgres::Bytes>;

postgres::Parameters values(std::uint64_t number) {
  const Time now = std::chrono::time_point_cast<Time::duration>(std::chrono::system_clock::now());
  constexpr std::int64_t kReady = 0;
  return postgres::Parameters(event_id(number), "Placed", "Order", aggregate_id(number), Text(),
                              Text(), Text(), payload(number), Data(), now, now, kReady, Text());
}

class PostgresWriter final : public BareWriter {
 public:
  explicit PostgresWriter(const std::string& url) : bare_(url) {
    bare_.prepare("insert", postgres::sql::kInsert.text, values(0));
  }

  void write(std::uint64_t number) override {
    bare_.exec("BEGIN");
    bare_.run("insert", values(number));
    bare_.exec("COMMIT");
  }

 private:
  BarePostgres bare_;
};

std::unique_ptr<BareWriter> PostgresSubject::writer(const std::string& url) {
  postgres::migrate(url);
  return std::make_unique<PostgresWriter>(url);
}

constexpr std::int64_t kClaimed = 100;

// It reads in the order of seq over all shards, for which the library has no index.
constexpr const char* kIndex =
    "CREATE INDEX naive ON outbox_event (seq) WHERE status IN (0, 2);"
    "ANALYZE outbox_event; CHECKPOINT";

constexpr const char* kClaim = R"sql(
UPDATE {table} SET locked_by = 'naive', locked_at = now()
WHERE seq IN (SELECT seq FROM {table}
              WHERE status IN (0, 2) AND hold = 0 AND locked_by IS NULL
              ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED)
  AND status IN (0, 2)
RETURNING {columns}
)sql";

constexpr const char* kDone = R"sql(
UPDATE {table} SET status = 1, done_at = now(), hold = NULL WHERE seq = $1 AND status IN (0, 2)
)sql";

double PostgresSubject::drain_naive(const std::string& url, std::size_t events) {
  const BarePostgres bare(url);
  bare.exec(kIndex);
  const postgres::Parameters one(std::int64_t{1});
  bare.prepare("claim", kClaim, one);
  bare.prepare("done", kDone, one);
  std::size_t delivered = 0;
  return seconds_of([&] {
    while (delivered < events) {
      const postgres::Result rows = bare.run("claim", postgres::Parameters(kClaimed));
      if (rows.rows() == 0) throw std::runtime_error("naive: nothing left to claim");
      for (int row = 0; row < rows.rows(); ++row) {
        bare.run("done", postgres::Parameters(rows.integer(row, 0)));
      }
      delivered += static_cast<std::size_t>(rows.rows());
    }
  });
}

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kBatch = 500;

constexpr const char* kUpdate = R"sql(
UPDATE {table} AS event SET status = 1, done_at = now(), hold = NULL
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS item (shard, hold, seq)
WHERE event.shard = item.shard AND event.hold = item.hold AND event.seq = item.seq
  AND event.status IN (0, 2)
)sql";

constexpr const char* kDelete = R"sql(
DELETE FROM {table} AS event
USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS item (shard, hold, seq)
WHERE event.shard = item.shard AND event.hold = item.hold AND event.seq = item.seq
  AND event.status IN (0, 2)
)sql";

double PostgresSubject::drain_limit(const std::string& url, std::size_t events, Finish finish) {
  const BarePostgres bare(url);
  bare.go_by_index_alone();
  Numbers shards(kShards);
  std::iota(shards.begin(), shards.end(), 0);
  Numbers floors(kShards);
  bare.prepare("select", postgres::sql::kReady.text, postgres::Parameters(shards, floors, kBatch));
  bare.prepare("update", finish == Finish::update ? kUpdate : kDelete,
               postgres::Parameters(shards, shards, shards));
  std::size_t delivered = 0;
  std::size_t bytes = 0;
  const double seconds = seconds_of([&] {
    for (;;) {
      const postgres::Result rows =
          bare.run("select", postgres::Parameters(shards, floors, kBatch));
      if (rows.rows() == 0) break;
      Numbers of_shard, holds, seqs;
      for (int row = 0; row < rows.rows(); ++row) {
        seqs.push_back(rows.integer(row, 0));
        of_shard.push_back(rows.integer(row, 1));
        holds.push_back(rows.integer(row, 2));
        floors[static_cast<std::size_t>(of_shard.back())] = seqs.back();
        for (int column = 0; column < PQnfields(rows.handle()); ++column) {
          bytes += rows.text(row, column).size();
        }
      }
      bare.run("update", postgres::Parameters(of_shard, holds, seqs));
      delivered += seqs.size();
    }
  });
  if (delivered != events || bytes == 0) throw std::runtime_error("limit: not all was delivered");
  return seconds;
}

// As kReady, above the positions $2.
constexpr const char* kNext = R"sql(
SELECT item.* FROM unnest($1::bigint[], $2::bigint[]) AS part (shard, position)
CROSS JOIN LATERAL (
  SELECT {light} FROM {table} WHERE shard = part.shard AND seq > part.position ORDER BY seq LIMIT $3
) AS item LIMIT $3
)sql";

constexpr const char* kStore = R"sql(
UPDATE {cursor} AS cursor SET position = item.position, snapshot = pg_current_snapshot()
FROM unnest($1::bigint[], $2::bigint[]) AS item (shard, position) WHERE cursor.shard = item.shard
)sql";

double PostgresSubject::drain_position_limit(const std::string& url, std::size_t events) {
  constexpr std::size_t kStored = 1'000;
  const BarePostgres bare(url);
  bare.go_by_index_alone();
  Numbers shards(kShards);
  std::iota(shards.begin(), shards.end(), 0);
  Numbers positions(kShards);
  bare.prepare("select", kNext, postgres::Parameters(shards, positions, kBatch));
  bare.prepare("store", kStore, postgres::Parameters(shards, positions));
  std::size_t delivered = 0;
  std::size_t stored = 0;
  std::size_t bytes = 0;
  const double seconds = seconds_of([&] {
    for (;;) {
      const postgres::Result rows =
          bare.run("select", postgres::Parameters(shards, positions, kBatch));
      for (int row = 0; row < rows.rows(); ++row) {
        positions[static_cast<std::size_t>(rows.integer(row, 1))] = rows.integer(row, 0);
        for (int column = 0; column < PQnfields(rows.handle()); ++column) {
          bytes += rows.text(row, column).size();
        }
      }
      delivered += static_cast<std::size_t>(rows.rows());
      if (delivered - stored >= kStored || rows.rows() == 0) {
        bare.run("store", postgres::Parameters(shards, positions));
        stored = delivered;
      }
      if (rows.rows() == 0) break;
    }
  });
  if (delivered != events || bytes == 0) throw std::runtime_error("limit: not all was delivered");
  return seconds;
}

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

// The store's statements are out of reach; so the very same ones run here, on a
// connection of our own.
std::vector<Visited> PostgresSubject::visited(const std::string& url, std::size_t rows,
                                              const std::function<void()>& /*poll*/) {
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

}  // namespace

std::unique_ptr<Subject> postgres_subject() {
  const char* url = std::getenv("OUTBOX_TEST_POSTGRES");
  if (url == nullptr) {
    throw std::runtime_error("OUTBOX_TEST_POSTGRES names no server; run scripts/bench postgres");
  }
  return std::make_unique<PostgresSubject>(url);
}

}  // namespace outbox::bench
