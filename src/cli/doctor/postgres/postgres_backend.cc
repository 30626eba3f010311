// PostgreSQL, for the command line: the database, and what `outbox doctor` looks at in it.
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
#include "cli/doctor/backend.h"
#include "cli/doctor/postgres/doctor_sql.h"
#include "cli/output/text.h"
#include "client/postgres/connect_options.h"
#include "client/postgres/libpq.h"
#include "outbox/postgres.h"
#include "store/postgres/store_config.h"

namespace outbox::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What the tests run on, and what the store refuses to open.
constexpr std::array kTestedVersions{15, 17, 18};
constexpr const char* kTestedText = "tested on 15, 17 and 18";
constexpr int kOldestVersion = 13;

// For a notification to come back.
constexpr milliseconds kNotifyTime{2'000};

// A row's values as text; NULL is nullopt.
using Row = std::vector<std::optional<std::string>>;

// A connection that asks. Throws std::runtime_error with the server's words.
class Server {
 public:
  Server(const postgres::ConnectOptions& target, const postgres::TableName& table)
      : target_(target), table_(table), connection_(target.connect()) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) {
      throw std::runtime_error(postgres::message_of(connection_.get(), nullptr));
    }
    PQsetNoticeProcessor(
        connection_.get(), [](void*, const char*) {}, nullptr);
  }

  // Another one.
  Server again() const { return {target_, table_}; }

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
  const postgres::ConnectOptions& target_;
  const postgres::TableName& table_;
  const postgres::ConnectionHandle connection_;
};

bool is_true(const std::optional<std::string>& value) { return value == "t"; }

std::int64_t number(const std::optional<std::string>& value) { return std::stoll(value.value()); }

std::string age(std::int64_t seconds) { return age_text(std::chrono::seconds{seconds}); }

Finding check_server(Server& server) {
  const Row facts = server.ask_one(postgres_sql::kServer);
  const std::string says = "PostgreSQL " + facts[0].value() + ", as role " + facts[1].value();
  if (server.version() < kOldestVersion) {
    return fatal(says, "upgrade the server: the library needs PostgreSQL 13 or later");
  }
  const bool tested = std::find(kTestedVersions.begin(), kTestedVersions.end(), server.version()) !=
                      kTestedVersions.end();
  return fine(tested ? says : says + " (expected to work; " + kTestedText + ")");
}

Finding check_time(Server& server) {
  return check_clock(std::chrono::microseconds{number(server.ask_one(postgres_sql::kTime)[0])});
}

Finding check_encoding(Server& server) {
  const std::string encoding = server.ask_one(postgres_sql::kEncoding)[0].value();
  if (encoding == "UTF8") return fine(encoding);
  return fatal(encoding + ", not UTF8", "create the database with ENCODING 'UTF8'");
}

Finding check_primary(Server& server) {
  const Row facts = server.ask_one(postgres_sql::kReadOnly);
  if (is_true(facts[0])) {
    return fatal("this server is a standby, and read-only",
                 "name the primary, or all hosts with target_session_attrs=read-write");
  }
  if (is_true(facts[1])) {
    return fatal("transactions are read-only here",
                 "look for default_transaction_read_only of the role, the database and the server");
  }
  return fine("this server accepts writes");
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
  if (cache == 1) return fine("the sequence assigns the row numbers one by one");
  return warning("each session takes " + grouped(cache) +
                     " numbers from the sequence at once, so that order is not kept",
                 "ALTER SEQUENCE ... CACHE 1, on the sequence of the table's column seq");
}

Finding check_connections(Server& server, const PostgresLimits& limits) {
  const Row row = server.ask_one(postgres_sql::kConnections);
  return check_sessions(number(row[0]), number(row[1]), limits.free_connections,
                        "raise max_connections or the role's or database's CONNECTION LIMIT, or "
                        "lower postgres::Options::connections");
}

Finding check_vacuum(Server& server, const PostgresLimits& limits) {
  const Row row = server.ask_one(postgres_sql::kVacuum);
  const std::int64_t live = number(row[0]);
  const std::int64_t dead = number(row[1]);
  const std::string says =
      grouped(dead) + " dead rows, " + grouped(live) + " live rows; " +
      (row[2] ? "last vacuumed " + age(number(row[2])) + " ago" : "not vacuumed yet");
  if (!is_true(row[3])) {
    return warning(says + "; autovacuum is off",
                   "turn autovacuum on: every delivery leaves a dead row behind");
  }
  if (dead <= limits.dead_rows + live / 10) return fine(says);
  return warning(says,
                 "the vacuum is behind: look for old transactions, and for workers that are busy "
                 "elsewhere (autovacuum_max_workers)");
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
    return warning("the replication slot " + quote(slots.front()[0].value()) +
                       " keeps dead rows, and nobody reads from it",
                   "start its reader, or drop it (pg_drop_replication_slot)");
  }
  if (!is_true(server.ask_one(postgres_sql::kSeesAllSessions)[0])) {
    finding.says += ", as far as this role can see (it lacks pg_read_all_stats)";
  }
  return finding;
}

// Behind a pooler in transaction mode nothing comes.
Finding check_notify(Server& server) {
  const std::string channel = "outbox_doctor_" + std::to_string(getpid());
  server.ask("LISTEN " + quoted_name(channel));
  server.again().ask("SELECT pg_notify($1, '')", std::array{channel});
  const bool heard = server.wait_for_notification(kNotifyTime);
  server.ask("UNLISTEN " + quoted_name(channel));
  if (heard) return fine("notifications (LISTEN, NOTIFY) arrive");
  return warning("notifications (LISTEN, NOTIFY) do not arrive: is there a pooler in between?",
                 "connect engines to the server itself, or set postgres::Options::notify and "
                 "prepare to false; polling then finds the events of other processes");
}

class PostgresBackend final : public Backend {
 public:
  PostgresBackend(std::string url, std::string table, const PostgresLimits& limits)
      : url_(std::move(url)), table_(std::move(table)), limits_(limits), target_(url_) {}

  std::string description() const override {
    return "PostgreSQL database " + target_.place() + ", table " + table_;
  }
  std::string arguments() const override { return store_arguments(target_.public_url(), table_); }
  SchemaStatus schema_status() override {
    server_.reset();  // checks are done with it, and a login may have few connections
    return postgres::schema_status(url_, table_);
  }
  SchemaStatus migrate(std::optional<Progress> progress) override {
    return postgres::migrate(url_, table_, progress);
  }
  bool switch_progress(Progress to, const std::function<void(const std::string&)>& say) override {
    return postgres::switch_progress(url_, to, {.table = table_, .on_step = say});
  }
  std::string schema_sql(std::optional<Progress> progress) const override {
    return postgres::schema_sql(table_, progress.value_or(Progress::row));
  }

  // A pooler may be in between, and a command runs few statements.
  std::shared_ptr<Store> open() override {
    check_schema(*this, schema_status());
    return postgres::open(url_, {.table = table_, .migrate = false, .prepare = false});
  }

  std::vector<Check> checks(const CheckOptions& /*options*/) override {
    name_ = postgres::TableName::parse(table_);
    const auto ask = [this](const char* name, auto find) -> Check {
      return {.name = name, .find = [this, find] { return std::vector{find(*server_)}; }};
    };
    const auto with_limits = [this](Finding (*find)(Server&, const PostgresLimits&)) {
      return [this, find](Server& server) { return find(server, limits_); };
    };
    const auto ask_of_tables = [this](const char* name, auto find) -> Check {
      return {.name = name, .find = [this, find]() -> std::vector<Finding> {
                if (!is_true(server_->ask_one(postgres_sql::kTables)[0])) return {};
                return {find(*server_)};
              }};
    };
    return {{.name = "server",
             .find =
                 [this] {
                   server_.emplace(target_, name_);
                   return std::vector{check_server(*server_)};
                 },
             .required = true,
             .advice = "check --db, that the server runs and can be reached, and its pg_hba.conf"},
            ask("time", check_time),
            ask("encoding", check_encoding),
            ask("primary", check_primary),
            ask("notify", check_notify),
            ask("sessions", with_limits(check_connections)),
            ask("snapshots", with_limits(check_old_transactions)),
            ask_of_tables("order", check_order),
            ask_of_tables("vacuum", with_limits(check_vacuum)),
            ask_of_tables("privileges", check_privileges),
            schema_check(*this)};
  }

  RepairSql repair_sql() const override {
    const auto name = postgres::TableName::parse(table_);
    return {.find = postgres::expand(postgres_sql::kFindBroken, name),
            .fix = postgres::expand(postgres_sql::kFixBroken, name)};
  }

 private:
  const std::string url_;  // with its password
  const std::string table_;
  const PostgresLimits limits_;
  const postgres::ConnectOptions target_;
  postgres::TableName name_{};
  std::optional<Server> server_;  // once it has been reached
};

}  // namespace

std::unique_ptr<Backend> make_postgres_backend(std::string url, std::string table,
                                               const PostgresLimits& limits) {
  return std::make_unique<PostgresBackend>(std::move(url), std::move(table), limits);
}

}  // namespace outbox::cli
