#include "cli/doctor/mysql/mysql_settings.h"

#include <stdexcept>

#include "cli/output/text.h"

namespace outbox::cli {
namespace {

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
        "tell that there is one");
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
    return "this is TiDB, each node of which gives out numbers from a stock of its own";
  }
  if (settings.is_on("wsrep_on")) {
    return "this is a node of a Galera cluster, each of which gives out numbers of its own";
  }
  if (settings.text("group_replication_single_primary_mode") == "OFF") {
    return "this is a group with several primaries, each of which gives out numbers of its own";
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
  return fine("one server gives out the numbers of rows, one by one");
}

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

}  // namespace outbox::cli
