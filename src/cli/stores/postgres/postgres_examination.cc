#include "cli/stores/postgres/postgres_examination.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "base/quote.h"
#include "base/sql_text.h"
#include "cli/arguments/times.h"
#include "cli/output/figures.h"
#include "cli/stores/postgres/examination_sql.h"
#include "cli/stores/server_checks.h"
#include "client/postgres/connect_options.h"
#include "client/postgres/libpq.h"
#include "store/postgres/names.h"

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
  const auto old = server.ask(postgres_sql::kOldTransactions, std::array{seconds});
  if (!old.empty()) {
    std::string says = printable(old.front()[0].value());
    says += old.front()[0]->starts_with("prepared") ? " has been there for "
                                                    : " has had a transaction open for ";
    says += age(number(old.front()[1]));
    if (old.size() > 1)
      says += ", and " + grouped(static_cast<std::int64_t>(old.size()) - 1) + " more";
    return {.check = "snapshots",
            .verdict = Verdict::warning,
            .says = says,
            .advice =
                "dead rows stay until it ends, and reads get slower: end it "
                "(pg_terminate_backend, ROLLBACK PREPARED)"};
  }
  const auto slots = server.ask(postgres_sql::kPinningSlots);
  if (!slots.empty()) {
    return {.check = "snapshots",
            .verdict = Verdict::warning,
            .says = "the replication slot " + quote(slots.front()[0].value()) +
                    " keeps dead rows, and nobody reads from it",
            .advice = "start its reader, or drop it (pg_drop_replication_slot)"};
  }
  Finding finding{
      .check = "snapshots",
      .says = "no transaction has been open for " + age(limits.old_transaction.count())};
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

}  // namespace

std::vector<Finding> examine_postgres(const std::string& url, const std::string& table,
                                      const PostgresLimits& limits) {
  const postgres::ConnectOptions target(url);
  const auto name = postgres::TableName::parse(table);
  std::vector<Finding> findings;
  try {
    Server server(target, name);
    const Row facts = server.ask_one(postgres_sql::kServer);
    findings = {check_version(server, facts), check_encoding(facts), check_primary(facts),
                check_clock(std::chrono::microseconds{number(facts[5])})};
    if (any_failed(findings)) return findings;
    const auto add = [&](const char* check, const std::function<Finding()>& run) {
      findings.push_back(try_check(check, run));
    };
    add("notify", [&] { return check_notify(server, target, name); });
    add("sessions", [&] { return check_connections(server, limits); });
    add("snapshots", [&] { return check_old_transactions(server, limits); });
    // Without tables the check of the schema says what to do.
    if (!is_true(server.ask_one(postgres_sql::kTables)[0])) return findings;
    add("privileges", [&] { return check_privileges(server); });
    add("order", [&] { return check_order(server); });
    add("vacuum", [&] { return check_vacuum(server, limits); });
  } catch (const std::exception& error) {
    findings.push_back({.check = "server",
                        .verdict = Verdict::failure,
                        .says = error.what(),
                        .advice = "check --db, that the server runs and can be reached, and its "
                                  "pg_hba.conf"});
  }
  return findings;
}

}  // namespace outbox::cli
