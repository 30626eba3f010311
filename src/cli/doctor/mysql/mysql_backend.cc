#include "cli/doctor/mysql/mysql_backend.h"

#include <mysqld_error.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/url.h"
#include "cli/doctor/mysql/doctor_sql.h"
#include "cli/output/text.h"
#include "client/mysql/connect_options.h"
#include "outbox/error.h"
#include "outbox/mysql.h"
#include "store/mysql/store_config.h"

namespace outbox::cli {
namespace {

using std::chrono::seconds;

// What the tests run on: MariaDB's version to its second number, MySQL's to its first.
constexpr unsigned long kTestedMariaDb = 1011;
constexpr unsigned long kTestedMySql = 9;
constexpr const char* kTestedText = "tested on MariaDB 10.11 and MySQL 9";

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

Finding check_server(Server& server) {
  const mysql::Result facts = server.ask(mysql_sql::kServer);
  const std::string says = (server.is_mariadb() ? "MariaDB " : "MySQL ") +
                           std::string(facts.text(0, 0)) + ", as user " +
                           std::string(facts.text(0, 1));
  const bool tested = server.is_mariadb() ? server.version() / 100 == kTestedMariaDb
                                          : server.version() / 10'000 == kTestedMySql;
  return fine(tested ? says : says + " (expected to work; " + kTestedText + ")");
}

Finding check_time(Server& server) {
  return check_clock(std::chrono::microseconds{server.ask(mysql_sql::kTime).integer(0, 0)});
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
    return fine("the server does not report how many connections are open");
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

Finding cannot_see(const char* what) {
  return fine(std::string("this user cannot see ") + what + ": it lacks PROCESS");
}

Finding check_old_transactions(Server& server, const MysqlLimits& limits) {
  server.ask(mysql_sql::kZoneOfHost);
  const auto all = server.ask_if_allowed(mysql_sql::kTransactions);
  if (!all) return cannot_see("the transactions of others");
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
  if (!versions) return cannot_see("its length");
  const std::string says = "history list length " + grouped(*versions);
  if (*versions <= limits.old_versions) return fine(says);
  return warning(says,
                 "the purge is behind, and reads walk over what it has not removed: look for old "
                 "transactions, and raise innodb_purge_threads");
}

Finding wrong_engine(const std::string& table, const std::string& engine) {
  return failure("the engine of " + table + " is " + engine + ", not InnoDB",
                 "ALTER TABLE " + table + " ENGINE = InnoDB: it must take part in transactions");
}

Finding check_tables(Server& server) {
  const mysql::Result engines = server.ask_of_tables(mysql_sql::kEngines, true);
  for (int row = 0; row < engines.rows(); ++row) {
    const std::string table(engines.text(row, 0));
    const std::string engine(engines.text(row, 1));
    if (engine == "InnoDB") continue;
    return wrong_engine(table, engine);
  }
  const mysql::Result wrong = server.ask_of_tables(mysql_sql::kCollations, true);
  if (wrong.rows() == 0) return fine("all are InnoDB, with a binary collation");
  const std::string table(wrong.text(0, 0));
  return failure(table + "." + std::string(wrong.text(0, 1)) + " has the collation " +
                     std::string(wrong.text(0, 2)) + ", which takes different texts for the same",
                 "ALTER TABLE " + table + " CONVERT TO CHARACTER SET utf8mb4 COLLATE " +
                     (server.is_mariadb() ? "utf8mb4_nopad_bin" : "utf8mb4_0900_bin"));
}

Finding check_indexes(Server& server) {
  if (!server.ask_if_allowed(mysql_sql::kReadsEvents)) {
    return fine("this user cannot see them: it may not read events");
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
    missing.append(missing.empty() ? "" : ", ");
    missing.append(name).append(" (").append(columns).append(")");
  }
  if (missing.empty()) return fine("all are present");
  return fatal(
      "missing or changed: " + missing,
      "create them as `outbox migrate print` has them: the library's statements name them");
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

// --- What the settings mean ---

constexpr std::int64_t kUnlimited = INT64_MAX;

Finding check_primary(const MysqlSettings& settings) {
  for (const char* name : {"read_only", "super_read_only", "innodb_read_only",
                           "transaction_read_only", "tx_read_only", "tidb_super_read_only"}) {
    if (!settings.is_on(name)) continue;
    return fatal(std::string("this server is read-only: ") + name + " is " + settings.text(name),
                 "name the primary in --db, or turn it off");
  }
  return fine("this server accepts writes");
}

// With READ COMMITTED the server refuses to write into a log of statements.
Finding check_binlog(const MysqlSettings& settings) {
  if (!settings.is_on("log_bin")) return fine("none (log_bin is OFF)");
  const std::string says = "binlog_format is " + settings.text("binlog_format");
  if (settings.text("binlog_format") != "STATEMENT") return fine(says);
  return failure(says + ", with which the server refuses the engine's updates",
                 "set binlog_format to ROW or MIXED");
}

bool is_tidb(const MysqlSettings& settings) {
  return settings.text("version").find("TiDB") != std::string::npos;
}

Finding check_durability(const MysqlSettings& settings) {
  std::string problems;
  const auto expect_one = [&](const std::string& name) {
    const std::string value = settings.text(name);
    // A 3 is MariaDB's, and flushes InnoDB's log no less; for the other it is too rare.
    const bool as_safe = value == "3" && name == "innodb_flush_log_at_trx_commit";
    if (value.empty() || value == "1" || as_safe) return;
    problems += (problems.empty() ? "" : ", ") + name + " is " + value;
  };
  expect_one("innodb_flush_log_at_trx_commit");
  if (settings.is_on("log_bin")) expect_one("sync_binlog");
  if (!problems.empty()) {
    return warning("a crash of the server can lose the last commits: " + problems,
                   "set it to 1; or accept that events of lost commits may have been delivered, "
                   "and that lost updates mean repeats");
  }
  if (!is_tidb(settings) && !settings.is_on("log_bin")) {
    return fine(
        "commits are flushed to disk; because others see them before (log_bin is OFF), engines "
        "have them flushed after each read that finds events");
  }
  return fine("commits are flushed to disk");
}

Finding check_packet(const MysqlSettings& settings, const MysqlLimits& limits) {
  const std::int64_t bytes = settings.number("max_allowed_packet", kUnlimited);
  if (bytes == kUnlimited) return fine("no limit");
  const std::string says = "max_allowed_packet is " + grouped(bytes) + " bytes";
  if (bytes >= limits.packet) return fine(says);
  return warning(says, "raise it to " + grouped(limits.packet) +
                           " or more: the server refuses writes of several events of 1 MiB");
}

// What transactions of the user's begin with; the engine brings its own.
Finding check_defaults(const MysqlSettings& settings, const MysqlLimits& limits) {
  const std::string mysql_name = settings.text("transaction_isolation");
  const std::string isolation = mysql_name.empty() ? settings.text("tx_isolation") : mysql_name;
  const std::chrono::seconds idle{settings.number("wait_timeout", limits.idle.count())};
  const bool autocommit = settings.is_on("autocommit");
  const std::string says = "autocommit is " + std::string(autocommit ? "on" : "off") +
                           ", transactions are " + isolation + ", sessions may be idle for " +
                           age_text(idle);
  std::string advice;
  const auto advise = [&](const std::string& text) {
    advice.append(advice.empty() ? "" : "; ").append(text);
  };
  if (!autocommit) {
    advise(
        "on connections of your own, begin transactions with BEGIN: without it a write cannot "
        "tell that a transaction is open");
  }
  if (isolation == "SERIALIZABLE") {
    advise("with SERIALIZABLE your SELECTs lock, and deadlocks are frequent");
  }
  if (idle < limits.idle) {
    advise("raise wait_timeout: transactions after a pause have to reconnect");
  }
  return advice.empty() ? fine(says) : warning(says, advice);
}

// Why rows may not be numbered in the order of their transactions; empty if they are.
std::string disorder(const MysqlSettings& settings) {
  if (is_tidb(settings)) {
    return "this is TiDB, whose nodes assign numbers from ranges of their own";
  }
  if (settings.is_on("wsrep_on")) {
    return "this is a node of a Galera cluster, whose nodes assign numbers of their own";
  }
  if (settings.text("group_replication_single_primary_mode") == "OFF") {
    return "this is a group with several primaries, which all assign numbers of their own";
  }
  const std::int64_t step = settings.number("auto_increment_increment", 1);
  if (step != 1) {
    return "auto_increment_increment is " + grouped(step) +
           ", as if several servers took writes, each with numbers of its own";
  }
  return {};
}

Finding check_order(const MysqlSettings& settings) {
  const std::string reason = disorder(settings);
  if (!reason.empty()) {
    return warning("order is not promised: " + reason,
                   "have all writers of an aggregate use one server, or do without order");
  }
  if (settings.text("innodb_autoinc_lock_mode") == "0") {
    return warning(
        "order is kept, but innodb_autoinc_lock_mode is 0: writers wait for each other's INSERTs",
        "set it to 1 or 2; both keep the numbers of an INSERT together");
  }
  return fine("one server assigns the row numbers, one by one");
}

// --- The database ---

class MysqlBackend final : public Backend {
 public:
  MysqlBackend(std::string url, std::string table, const MysqlLimits& limits)
      : url_(std::move(url)), table_(std::move(table)), limits_(limits), target_(url_) {}

  std::string description() const override {
    return "MySQL database " + target_.place() + ", table " + table_;
  }
  std::string arguments() const override { return store_arguments(target_.public_url(), table_); }
  SchemaStatus schema_status() override {
    server_.reset();  // checks are done with it, and a login may have few connections
    return mysql::schema_status(url_, table_);
  }
  SchemaStatus migrate(std::optional<Progress> progress) override {
    check_by_row(progress);
    return mysql::migrate(url_, table_);
  }

  // No server is asked, so it is the scheme that says whose dialect is meant.
  std::string schema_sql(std::optional<Progress> progress) const override {
    check_by_row(progress);
    const bool mariadb = scheme_of(url_) == "mariadb";
    return mysql::schema_sql(mariadb ? mysql::Server::mariadb : mysql::Server::mysql, table_);
  }

  // A proxy may be in between, and a command runs few statements.
  std::shared_ptr<Store> open() override {
    check_schema(*this, schema_status());
    return mysql::open(url_, {.table = table_, .migrate = false, .prepare = false});
  }

  std::vector<Check> checks(const CheckOptions& /*options*/) override {
    const auto ask = [this](const char* name, auto find) -> Check {
      return {.name = name, .find = [this, find] { return std::vector{find(*server_)}; }};
    };
    const auto ask_of_tables = [this](const char* name, auto find) -> Check {
      return {.name = name, .find = [this, find]() -> std::vector<Finding> {
                if (server_->ask_of_tables(mysql_sql::kEngines, false).rows() == 0) return {};
                return {find(*server_)};
              }};
    };
    const auto with_limits = [this](Finding (*find)(Server&, const MysqlLimits&)) {
      return [this, find](Server& server) { return find(server, limits_); };
    };
    std::vector<Check> checks{
        {.name = "server",
         .find =
             [this] {
               server_.emplace(url_, table_);
               settings_ = settings_of(*server_);
               return std::vector{check_server(*server_)};
             },
         .required = true,
         .advice = "check --db, that the server runs and can be reached, and its users"},
        ask("time", check_time)};
    const auto add = [&](std::vector<Check> more) {
      std::move(more.begin(), more.end(), std::back_inserter(checks));
    };
    add(settings_checks(settings_, limits_));
    add({ask("sessions",
             [this](Server& server) { return check_connections(server, settings_, limits_); }),
         ask("snapshots", with_limits(check_old_transactions)),
         ask("undo log", with_limits(check_undo_log)), ask_of_tables("tables", check_tables),
         ask_of_tables("indexes", check_indexes), ask_of_tables("privileges", check_privileges),
         schema_check(*this)});
    return checks;
  }

  RepairSql repair_sql() const override {
    const auto name = mysql::TableName::parse(table_);
    return {.find = mysql::expand(mysql_sql::kFindBroken, name),
            .fix = mysql::expand(mysql_sql::kFixBroken, name)};
  }

 private:
  const std::string url_;  // with its password
  const std::string table_;
  const MysqlLimits limits_;
  const mysql::ConnectOptions target_;
  std::optional<Server> server_;  // once it has been reached
  MysqlSettings settings_;        // likewise
};

}  // namespace

std::string MysqlSettings::text(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string() : found->second;
}

std::int64_t MysqlSettings::number(const std::string& name, std::int64_t if_unknown) const {
  try {
    return std::stoll(text(name));
  } catch (const std::logic_error&) {
    return if_unknown;
  }
}

// Some have more values than these two, and all of those mean yes.
bool MysqlSettings::is_on(const std::string& name) const {
  const std::string value = text(name);
  return !value.empty() && value != "OFF" && value != "0";
}

std::vector<Check> settings_checks(const MysqlSettings& settings, const MysqlLimits& limits) {
  const auto check = [&settings](const char* name, auto find) -> Check {
    return {.name = name, .find = [&settings, find] { return std::vector{find(settings)}; }};
  };
  const auto with_limits = [limits](Finding (*find)(const MysqlSettings&, const MysqlLimits&)) {
    return [limits, find](const MysqlSettings& all) { return find(all, limits); };
  };
  return {check("primary", check_primary),
          check("binlog", check_binlog),
          check("durability", check_durability),
          check("packet", with_limits(check_packet)),
          check("defaults", with_limits(check_defaults)),
          check("order", check_order)};
}

std::unique_ptr<Backend> make_mysql_backend(std::string url, std::string table,
                                            const MysqlLimits& limits) {
  return std::make_unique<MysqlBackend>(std::move(url), std::move(table), limits);
}

}  // namespace outbox::cli
