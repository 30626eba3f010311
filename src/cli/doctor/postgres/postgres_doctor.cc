#include "cli/doctor/postgres/postgres_doctor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/quote.h"
#include "base/sql_text.h"
#include "cli/doctor/postgres/doctor_sql.h"
#include "cli/doctor/server_doctor.h"
#include "cli/output/text.h"
#include "client/postgres/connect_options.h"
#include "client/postgres/libpq.h"
#include "outbox/postgres.h"
#include "store/postgres/store_config.h"

namespace outbox::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Verdict = Finding::Verdict;

// What the tests run on, and what the store refuses to open.
constexpr std::array kTestedVersions{15, 17, 18};
constexpr std::string_view kTestedText = "tested on 15, 17 and 18";
constexpr int kOldestVersion = 13;

// For a notification to come back.
constexpr milliseconds kNotifyTime{2'000};

// A row's values as text; NULL is nullopt.
using Row = std::vector<std::optional<std::string>>;

// A connection that asks. Throws std::runtime_error with the server's words.
class Server {
 public:
  Server(const postgres::ConnectOptions& target, postgres::TableName table)
      : table_(std::move(table)), connection_(target.connect()) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) {
      throw std::runtime_error(postgres::message_of(connection_.get(), nullptr));
    }
    PQsetNoticeProcessor(
        connection_.get(), [](void*, const char*) {}, nullptr);
  }

  std::vector<Row> ask(std::string_view sql, std::span<const std::string> values = {}) {
    std::vector<const char*> pointers;
    pointers.reserve(values.size());
    for (const std::string& value : values) pointers.push_back(value.c_str());
    const postgres::ResultHandle result(PQexecParams(
        connection_.get(), postgres::expand(sql, table_).c_str(), static_cast<int>(values.size()),
        nullptr, pointers.data(), nullptr, nullptr, 0));
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
      throw std::runtime_error(postgres::message_of(connection_.get(), result.get()));
    }
    std::vector<Row> rows;
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      Row& values_of_row = rows.emplace_back();
      for (int column = 0; column < PQnfields(result.get()); ++column) {
        auto& value = values_of_row.emplace_back();
        if (PQgetisnull(result.get(), row, column) == 0) {
          value = PQgetvalue(result.get(), row, column);
        }
      }
    }
    return rows;
  }

  // The only row of those that have one.
  Row ask_one(std::string_view sql) {
    auto rows = ask(sql);
    if (rows.size() != 1) throw std::runtime_error("the server gave no answer");
    return std::move(rows.front());
  }

  bool wait_for_notification(milliseconds limit) {
    const auto deadline = steady_clock::now() + limit;
    while (true) {
      if (PQconsumeInput(connection_.get()) == 0) return false;
      if (PGnotify* notification = PQnotifies(connection_.get())) {
        PQfreemem(notification);
        return true;
      }
      const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      if (left.count() <= 0) return false;
      pollfd readable{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0};
      poll(&readable, 1, static_cast<int>(left.count()));
    }
  }

  int version() const { return PQserverVersion(connection_.get()) / 10'000; }

 private:
  const postgres::TableName table_;
  const postgres::ConnectionHandle connection_;
};

bool is_true(const std::optional<std::string>& value) { return value == "t"; }

std::int64_t number(const std::optional<std::string>& value) { return std::stoll(value.value()); }

std::string age(std::int64_t seconds) { return age_text(std::chrono::seconds{seconds}); }

Finding check_version(const Server& server, const Row& facts) {
  Finding finding{.check = "server",
                  .says = "PostgreSQL " + facts[0].value() + ", as role " + facts[2].value()};
  const int version = server.version();
  if (version < kOldestVersion) {
    finding.verdict = Verdict::failure;
    finding.advice = "the library needs PostgreSQL 13 or later";
  } else if (std::find(kTestedVersions.begin(), kTestedVersions.end(), version) ==
             kTestedVersions.end()) {
    finding.says.append(" (expected to work; ").append(kTestedText).append(")");
  }
  return finding;
}

Finding check_encoding(const Row& facts) {
  Finding finding{.check = "encoding", .says = facts[1].value()};
  if (facts[1] != "UTF8") {
    finding.verdict = Verdict::failure;
    finding.advice = "create the database with ENCODING 'UTF8'";
  }
  return finding;
}

Finding check_primary(const Row& facts) {
  if (is_true(facts[3])) {
    return {.check = "primary",
            .verdict = Verdict::failure,
            .says = "this server is a standby, and takes no writes",
            .advice = "name the primary, or all hosts with target_session_attrs=read-write"};
  }
  if (is_true(facts[4])) {
    return {.check = "primary",
            .verdict = Verdict::failure,
            .says = "transactions are read-only here",
            .advice =
                "look for default_transaction_read_only of the role, the database and the "
                "server"};
  }
  return {.check = "primary", .says = "this server takes writes"};
}

Finding check_privileges(Server& server) {
  std::vector<Duty> duties;
  for (const Row& row : server.ask(postgres_sql::kPrivileges)) {
    duties.push_back({.name = row[0].value(), .lacks = row[1].value_or("")});
  }
  return check_duties("the role", duties);
}

Finding check_order(Server& server) {
  const std::int64_t cache = number(server.ask_one(postgres_sql::kSequenceCache)[0]);
  if (cache == 1) return {.check = "order", .says = "the numbers of rows are given out one by one"};
  return {.check = "order",
          .verdict = Verdict::warning,
          .says = "each session takes " + grouped(cache) +
                  " numbers at once, so that order is not kept",
          .advice = "ALTER SEQUENCE ... CACHE 1, on the sequence of the table's column seq"};
}

Finding check_connections(Server& server, const PostgresLimits& limits) {
  const Row row = server.ask_one(postgres_sql::kConnections);
  return check_sessions(number(row[0]), number(row[1]), limits.free_connections,
                        "raise max_connections or the role's or database's CONNECTION LIMIT, or "
                        "lower postgres::Options::connections");
}

Finding check_vacuum(Server& server, const PostgresLimits& limits) {
  const Row row = server.ask_one(postgres_sql::kVacuum);
  const std::int64_t living = number(row[0]);
  const std::int64_t dead = number(row[1]);
  Finding finding{
      .check = "vacuum",
      .says =
          grouped(dead) + " dead row versions beside " + grouped(living) + " living; " +
          (row[2] ? "the last vacuum was " + age(number(row[2])) + " ago" : "not vacuumed yet")};
  if (!is_true(row[3])) {
    finding.verdict = Verdict::warning;
    finding.says += "; autovacuum is off";
    finding.advice = "switch it on: every delivery leaves a dead row version behind";
  } else if (dead > limits.dead_rows + living / 10) {
    finding.verdict = Verdict::warning;
    finding.advice =
        "the vacuum is behind: look for old transactions, and for workers that are "
        "busy elsewhere (autovacuum_max_workers)";
  }
  return finding;
}

Finding check_old_transactions(Server& server, const PostgresLimits& limits) {
  const std::string seconds = std::to_string(limits.old_transaction.count());
  std::vector<OpenTransaction> old;
  for (const Row& row : server.ask(postgres_sql::kOldTransactions, std::array{seconds})) {
    old.push_back({.owner = printable(row[0].value()),
                   .prepared = row[0]->starts_with("prepared"),
                   .age = std::chrono::seconds{number(row[1])}});
  }
  Finding finding = check_snapshots(old, limits.old_transaction,
                                    "dead rows stay until it ends, and reads get slower: end it "
                                    "(pg_terminate_backend, ROLLBACK PREPARED)");
  if (!old.empty()) return finding;
  const auto slots = server.ask(postgres_sql::kPinningSlots);
  if (!slots.empty()) {
    return {.check = "snapshots",
            .verdict = Verdict::warning,
            .says = "the replication slot " + quote(slots.front()[0].value()) +
                    " keeps dead rows, and nobody reads from it",
            .advice = "start its reader, or drop it (pg_drop_replication_slot)"};
  }
  if (!is_true(server.ask_one(postgres_sql::kSeesAllSessions)[0])) {
    finding.says += ", as far as this role can see (it lacks pg_read_all_stats)";
  }
  return finding;
}

// Behind a pooler in transaction mode nothing comes.
Finding check_notify(Server& server, const postgres::ConnectOptions& target,
                     const postgres::TableName& table) {
  const std::string channel = "outbox_doctor_" + std::to_string(getpid());
  server.ask("LISTEN " + quoted_name(channel));
  Server(target, table).ask("SELECT pg_notify($1, '')", std::array{channel});
  const bool heard = server.wait_for_notification(kNotifyTime);
  server.ask("UNLISTEN " + quoted_name(channel));
  if (heard) return {.check = "notify", .says = "notifications come through"};
  return {.check = "notify",
          .verdict = Verdict::warning,
          .says = "notifications do not come through: is there a pooler in between?",
          .advice =
              "connect engines to the server itself, or set postgres::Options::notify and "
              "prepare to false; other processes' events are then found by polling"};
}

class PostgresDoctor final : public ServerDoctor {
 public:
  PostgresDoctor(const std::string& url, const std::string& table, const PostgresLimits& limits)
      : target_(url), table_(postgres::TableName::parse(table)), limits_(limits) {}

 private:
  void check_server(std::vector<Finding>& findings) override {
    server_.emplace(target_, table_);
    const Row facts = server_->ask_one(postgres_sql::kServer);
    findings = {check_version(*server_, facts), check_encoding(facts), check_primary(facts),
                check_clock(std::chrono::microseconds{number(facts[5])})};
  }

  std::vector<Check> checks() override {
    return {{"notify", [this] { return check_notify(*server_, target_, table_); }},
            {"sessions", [this] { return check_connections(*server_, limits_); }},
            {"snapshots", [this] { return check_old_transactions(*server_, limits_); }}};
  }

  bool has_tables() override { return is_true(server_->ask_one(postgres_sql::kTables)[0]); }

  std::vector<Check> table_checks() override {
    return {{"privileges", [this] { return check_privileges(*server_); }},
            {"order", [this] { return check_order(*server_); }},
            {"vacuum", [this] { return check_vacuum(*server_, limits_); }}};
  }

  const char* remedy() const override {
    return "check --db, that the server runs and can be reached, and its pg_hba.conf";
  }

  const postgres::ConnectOptions target_;
  const postgres::TableName table_;
  const PostgresLimits limits_;
  std::optional<Server> server_;  // once it has been reached
};

constexpr ServerKind kPostgres{
    .name = "PostgreSQL",
    .address = [](const std::string& url) -> ServerKind::Address {
      const postgres::ConnectOptions options(url);
      return {.place = options.place(), .public_url = options.public_url()};
    },
    .schema_status = [](const std::string& url,
                        const std::string& table) { return postgres::schema_status(url, table); },
    .migrate = [](const std::string& url,
                  const std::string& table) { return postgres::migrate(url, table); },
    .schema_sql = [](const std::string& /*url*/,
                     const std::string& table) { return postgres::schema_sql(table); },
    // A pooler may be in between, and a command runs few statements.
    .open = [](const std::string& url, const std::string& table) -> std::shared_ptr<Store> {
      return postgres::open(url, {.table = table, .migrate = false, .prepare = false});
    },
    .examine = [](const std::string& url,
                  const std::string& table) { return examine_postgres(url, table); },
    .repair_sql = [](const std::string& table) -> RepairSql {
      const auto name = postgres::TableName::parse(table);
      return {.find = postgres::expand(postgres_sql::kFindBroken, name),
              .fix = postgres::expand(postgres_sql::kFixBroken, name)};
    }};

}  // namespace

std::vector<Finding> examine_postgres(const std::string& url, const std::string& table,
                                      const PostgresLimits& limits) {
  return PostgresDoctor(url, table, limits).examine();
}

std::unique_ptr<Backend> make_postgres_backend(std::string url, std::string table) {
  return make_server_backend(kPostgres, std::move(url), std::move(table));
}

}  // namespace outbox::cli
