#include "cli/doctor/mysql/mysql_doctor.h"

#include <mysqld_error.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/url.h"
#include "cli/doctor/mysql/doctor_sql.h"
#include "cli/doctor/server_doctor.h"
#include "cli/output/text.h"
#include "client/mysql/connect_options.h"
#include "outbox/error.h"
#include "outbox/mysql.h"
#include "store/mysql/store_config.h"

namespace outbox::cli {
namespace {

using std::chrono::seconds;
using Verdict = Finding::Verdict;

// What the tests run on: MariaDB's version to its second number, MySQL's to its first.
constexpr unsigned long kTestedMariaDb = 1011;
constexpr unsigned long kTestedMySql = 9;
constexpr std::string_view kTestedText = "tested on MariaDB 10.11 and MySQL 9";

// A server that hangs is found out.
constexpr seconds kCallLimit{30};

mysql::StoreConfigPtr config_for(const std::string& url, const std::string& table) {
  auto config = std::make_shared<mysql::StoreConfig>(url);
  config->table = mysql::TableName::parse(table);
  config->description = "MySQL database " + config->target.place();
  config->options.prepare = false;
  return config;
}

// A connection that asks. Throws what the library throws.
class Server {
 public:
  Server(const std::string& url, const std::string& table) : database_(config_for(url, table)) {
    database_.limit_calls(kCallLimit);
    database_.ensure_connected();
  }

  const mysql::TableName& table() const { return mysql::config_of(database_).table; }

  mysql::Result ask(std::string_view sql) {
    return database_.session().run_text(mysql::expand(sql, table()), "ask the server");
  }

  // The same for a question that ends in the names of the tables: all whose name begins
  // with that of the events', or that one alone.
  mysql::Result ask_of_tables(std::string_view sql, bool all, std::string_view end = "") {
    mysql::Built question("ask the server", mysql::config_of(database_));
    question.sql(sql).sql("table_schema = ");
    if (table().schema.empty()) {
      question.sql("database()");
    } else {
      question.value(table().schema);
    }
    question.sql(" AND table_name IN (").value(table().table);
    if (all) {
      for (const char* suffix : {"_migration", "_instance", "_shard", "_archive", "_flush"}) {
        question.sql(", ").value(table().table + suffix);
      }
    }
    question.sql(") ").sql(end);
    return database_.run(question);
  }

  // The same for what this user may lack the privilege for: nullopt if so.
  std::optional<mysql::Result> ask_if_allowed(std::string_view sql) {
    try {
      return ask(sql);
    } catch (const Error&) {
      const unsigned number = database_.session().last_failure().number;
      if (number == ER_TABLEACCESS_DENIED_ERROR || number == ER_COLUMNACCESS_DENIED_ERROR ||
          number == ER_SPECIFIC_ACCESS_DENIED_ERROR) {
        return std::nullopt;
      }
      throw;
    }
  }

  bool is_mariadb() const { return mariadb_connection(database_.handle()) != 0; }
  unsigned long version() const { return mysql_get_server_version(database_.handle()); }

 private:
  mysql::Database database_;
};

Finding check_version(const Server& server, const mysql::Result& facts) {
  Finding finding{.check = "server",
                  .says = (server.is_mariadb() ? "MariaDB " : "MySQL ") +
                          std::string(facts.text(0, 0)) + ", as user " +
                          std::string(facts.text(0, 1))};
  const bool tested = server.is_mariadb() ? server.version() / 100 == kTestedMariaDb
                                          : server.version() / 10'000 == kTestedMySql;
  if (!tested) finding.says.append(" (expected to work; ").append(kTestedText).append(")");
  return finding;
}

MysqlSettings settings_of(Server& server) {
  const mysql::Result rows = server.ask(mysql_sql::kSettings);
  std::map<std::string, std::string> values;
  for (int row = 0; row < rows.rows(); ++row) {
    values.emplace(rows.text(row, 0), rows.text(row, 1));
  }
  return MysqlSettings(std::move(values));
}

Finding check_connections(Server& server, const MysqlSettings& settings,
                          const MysqlLimits& limits) {
  std::int64_t most = settings.number("max_connections", 0);
  const mysql::Result open = server.ask(mysql_sql::kOpenSessions);
  const mysql::Result own = server.ask(mysql_sql::kOwnSessions);
  if (open.rows() == 0 || own.rows() == 0) {
    return {.check = "sessions", .says = "the server does not tell how many are open"};
  }
  std::int64_t left = most - open.integer(0, 1);
  const std::int64_t most_of_user = own.integer(0, 1);
  if (most_of_user > 0 && most_of_user - own.integer(0, 0) < left) {
    most = most_of_user;
    left = most - own.integer(0, 0);
  }
  return check_sessions(left, most, limits.free_connections,
                        "raise max_connections or the user's MAX_USER_CONNECTIONS, or lower "
                        "mysql::Options::connections");
}

Finding cannot_see(const char* check, const char* what) {
  return {.check = check, .says = std::string(what) + " cannot be seen: the user lacks PROCESS"};
}

Finding check_old_transactions(Server& server, const MysqlLimits& limits) {
  server.ask(mysql_sql::kZoneOfHost);
  const auto all = server.ask_if_allowed(mysql_sql::kTransactions);
  if (!all) return cannot_see("snapshots", "the transactions of others");
  std::vector<OpenTransaction> old;
  for (int row = 0; row < all->rows(); ++row) {
    const seconds age{all->integer(row, 1)};
    if (age < limits.old_transaction) break;
    const std::int64_t thread = all->integer(row, 0);
    old.push_back({.owner = thread == 0 ? "a transaction without a session (XA PREPARE)"
                                        : "session " + std::to_string(thread),
                   .prepared = thread == 0,
                   .age = age});
  }
  return check_snapshots(old, limits.old_transaction,
                         "old versions of rows stay until it ends, and reads get slower: end it "
                         "(KILL, XA ROLLBACK)");
}

Finding check_undo_log(Server& server, const MysqlLimits& limits) {
  std::optional<std::int64_t> versions;
  for (const std::string_view question :
       {mysql_sql::kOldVersionsStatus, mysql_sql::kOldVersionsMetric}) {
    if (versions) break;
    const auto answer = server.ask_if_allowed(question);
    if (answer && answer->rows() > 0) versions = answer->integer(0, 1);
  }
  if (!versions) return cannot_see("undo log", "its length");
  Finding finding{.check = "undo log",
                  .says = "it holds the changes of " + grouped(*versions) + " transactions"};
  if (*versions > limits.old_versions) {
    finding.verdict = Verdict::warning;
    finding.advice =
        "the purge is behind, and reads walk over what it has not removed: look for old "
        "transactions, and raise innodb_purge_threads";
  }
  return finding;
}

Finding check_tables(Server& server) {
  const mysql::Result engines = server.ask_of_tables(mysql_sql::kEngines, true);
  for (int row = 0; row < engines.rows(); ++row) {
    if (engines.text(row, 1) == "InnoDB") continue;
    return {.check = "tables",
            .verdict = Verdict::failure,
            .says = std::string(engines.text(row, 0)) + " is kept by " +
                    std::string(engines.text(row, 1)) + ", not by InnoDB",
            .advice = "ALTER TABLE " + std::string(engines.text(row, 0)) +
                      " ENGINE = InnoDB: events must share the fate of transactions"};
  }
  const mysql::Result wrong = server.ask_of_tables(mysql_sql::kCollations, true);
  if (wrong.rows() > 0) {
    return {.check = "tables",
            .verdict = Verdict::failure,
            .says = std::string(wrong.text(0, 0)) + "." + std::string(wrong.text(0, 1)) +
                    " has the collation " + std::string(wrong.text(0, 2)) +
                    ", which takes different texts for the same",
            .advice = "ALTER TABLE " + std::string(wrong.text(0, 0)) +
                      " CONVERT TO CHARACTER SET utf8mb4 COLLATE " +
                      std::string(server.is_mariadb() ? "utf8mb4_nopad_bin" : "utf8mb4_0900_bin")};
  }
  return {.check = "tables", .says = "all are InnoDB, and compare texts byte by byte"};
}

Finding check_indexes(Server& server) {
  if (!server.ask_if_allowed(mysql_sql::kReadsEvents)) {
    return {.check = "indexes", .says = "they cannot be seen by a user that may not read events"};
  }
  constexpr std::pair<std::string_view, std::string_view> kWanted[] = {
      {"PRIMARY", "seq"},
      {"by_id", "event_id"},
      {"by_hold", "shard,hold,seq"},
      {"by_death", "dead,seq"},
  };
  const mysql::Result found =
      server.ask_of_tables(mysql_sql::kIndexes, false, "GROUP BY index_name");
  std::string missing;
  for (const auto& [name, columns] : kWanted) {
    bool there = false;
    for (int row = 0; row < found.rows(); ++row) {
      there = there || (found.text(row, 0) == name && found.text(row, 1) == columns);
    }
    if (there) continue;
    missing +=
        (missing.empty() ? "" : ", ") + std::string(name) + " (" + std::string(columns) + ")";
  }
  if (missing.empty()) return {.check = "indexes", .says = "all are there"};
  return {.check = "indexes",
          .verdict = Verdict::failure,
          .says = "missing, or not as they were made: " + missing,
          .advice = "create them as `outbox migrate print` has them: statements name them"};
}

Finding check_privileges(Server& server) {
  std::vector<Duty> duties;
  std::string_view table;  // that the last privilege is lacking on
  for (const mysql_sql::Need& need : mysql_sql::kNeeds) {
    if (duties.empty() || duties.back().name != need.duty) {
      duties.push_back({.name = std::string(need.duty)});
    }
    if (server.ask_if_allowed(need.probe)) continue;
    const std::string on = " on " + server.table().text() + std::string(need.table);
    std::string& lacks = duties.back().lacks;
    if (lacks.ends_with(on) && table == need.table) {
      lacks.insert(lacks.size() - on.size(), ", " + std::string(need.privilege));
    } else {
      lacks += (lacks.empty() ? "" : "; ") + std::string(need.privilege) + on;
    }
    table = need.table;
  }
  return check_duties("the user", duties);
}

class MysqlDoctor final : public ServerDoctor {
 public:
  MysqlDoctor(std::string url, std::string table, const MysqlLimits& limits)
      : url_(std::move(url)), table_(std::move(table)), limits_(limits) {}

 private:
  void check_server(std::vector<Finding>& findings) override {
    server_.emplace(url_, table_);
    const mysql::Result facts = server_->ask(mysql_sql::kServer);
    findings = {check_version(*server_, facts),
                check_clock(std::chrono::microseconds{facts.integer(0, 2)})};
    settings_.emplace(settings_of(*server_));
    for (Finding& finding : judge_settings(*settings_, limits_)) {
      findings.push_back(std::move(finding));
    }
  }

  std::vector<Check> checks() override {
    return {{"sessions", [this] { return check_connections(*server_, *settings_, limits_); }},
            {"snapshots", [this] { return check_old_transactions(*server_, limits_); }},
            {"undo log", [this] { return check_undo_log(*server_, limits_); }}};
  }

  bool has_tables() override {
    return server_->ask_of_tables(mysql_sql::kEngines, false).rows() > 0;
  }

  std::vector<Check> table_checks() override {
    return {{"tables", [this] { return check_tables(*server_); }},
            {"indexes", [this] { return check_indexes(*server_); }},
            {"privileges", [this] { return check_privileges(*server_); }}};
  }

  const char* remedy() const override {
    return "check --db, that the server runs and can be reached, and its users";
  }

  const std::string url_;
  const std::string table_;
  const MysqlLimits limits_;
  std::optional<Server> server_;           // once it has been reached
  std::optional<MysqlSettings> settings_;  // likewise
};

constexpr ServerKind kMysql{
    .name = "MySQL",
    .address = [](const std::string& url) -> ServerKind::Address {
      const mysql::ConnectOptions options(url);
      return {.place = options.place(), .public_url = options.public_url()};
    },
    .schema_status = [](const std::string& url,
                        const std::string& table) { return mysql::schema_status(url, table); },
    .migrate = [](const std::string& url,
                  const std::string& table) { return mysql::migrate(url, table); },
    // No server is asked, so it is the scheme that says whose dialect is meant.
    .schema_sql =
        [](const std::string& url, const std::string& table) {
          const bool mariadb = scheme_of(url) == "mariadb";
          return mysql::schema_sql(mariadb ? mysql::Server::mariadb : mysql::Server::mysql, table);
        },
    // A proxy may be in between, and a command runs few statements.
    .open = [](const std::string& url, const std::string& table) -> std::shared_ptr<Store> {
      return mysql::open(url, {.table = table, .migrate = false, .prepare = false});
    },
    .examine = [](const std::string& url,
                  const std::string& table) { return examine_mysql(url, table); },
    .repair_sql = [](const std::string& table) -> RepairSql {
      const auto name = mysql::TableName::parse(table);
      return {.find = mysql::expand(mysql_sql::kFindBroken, name),
              .fix = mysql::expand(mysql_sql::kFixBroken, name)};
    }};

}  // namespace

std::vector<Finding> examine_mysql(const std::string& url, const std::string& table,
                                   const MysqlLimits& limits) {
  return MysqlDoctor(url, table, limits).examine();
}

std::unique_ptr<Backend> make_mysql_backend(std::string url, std::string table) {
  return make_server_backend(kMysql, std::move(url), std::move(table));
}

}  // namespace outbox::cli
