// What the settings of a MariaDB or MySQL server mean for an outbox.
#include <stdexcept>

#include "cli/doctor/mysql/mysql_doctor.h"
#include "cli/output/text.h"

namespace outbox::cli {
namespace {

using Verdict = Finding::Verdict;

constexpr std::int64_t kUnlimited = INT64_MAX;

Finding check_primary(const MysqlSettings& settings) {
  for (const char* name : {"read_only", "super_read_only", "innodb_read_only",
                           "transaction_read_only", "tx_read_only", "tidb_super_read_only"}) {
    if (!settings.is_on(name)) continue;
    return {
        .check = "primary",
        .verdict = Verdict::failure,
        .says = std::string("the server takes no writes: ") + name + " is " + settings.text(name),
        .advice = "name the primary in --db, or switch it off"};
  }
  return {.check = "primary", .says = "this server takes writes"};
}

// With READ COMMITTED the server refuses to write into a log of statements.
Finding check_binlog(const MysqlSettings& settings) {
  if (!settings.is_on("log_bin")) return {.check = "binlog", .says = "there is none"};
  const std::string format = settings.text("binlog_format");
  if (format != "STATEMENT") return {.check = "binlog", .says = "it takes what the engine writes"};
  return {.check = "binlog",
          .verdict = Verdict::failure,
          .says = "binlog_format is STATEMENT, with which the server refuses the engine's updates",
          .advice = "set binlog_format to ROW, or to MIXED"};
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
    return {.check = "durability",
            .verdict = Verdict::warning,
            .says = "a crash of the server can lose the last commits: " + problems,
            .advice =
                "set it to 1; or accept that events of such commits may have been delivered, and "
                "that lost updates mean repeats"};
  }
  if (!is_tidb(settings) && !settings.is_on("log_bin")) {
    return {.check = "durability",
            .says =
                "what was committed is on the disk; because others see it before (log_bin is OFF), "
                "engines have it flushed after each read that finds something"};
  }
  return {.check = "durability", .says = "what was committed is on the disk"};
}

Finding check_packet(const MysqlSettings& settings, const MysqlLimits& limits) {
  const std::int64_t bytes = settings.number("max_allowed_packet", kUnlimited);
  if (bytes == kUnlimited) return {.check = "packet", .says = "there is no limit"};
  Finding finding{.check = "packet", .says = "max_allowed_packet is " + grouped(bytes) + " bytes"};
  if (bytes < limits.packet) {
    finding.verdict = Verdict::warning;
    finding.advice = "raise it to " + grouped(limits.packet) +
                     " or more: writes of several events of 1 MiB are refused";
  }
  return finding;
}

// What transactions of the user's begin with; the engine brings its own.
Finding check_defaults(const MysqlSettings& settings, const MysqlLimits& limits) {
  const std::string mysql_name = settings.text("transaction_isolation");
  const std::string isolation = mysql_name.empty() ? settings.text("tx_isolation") : mysql_name;
  const std::chrono::seconds idle{settings.number("wait_timeout", limits.idle.count())};
  const bool autocommit = settings.is_on("autocommit");
  Finding finding{.check = "defaults",
                  .says = "autocommit is " + std::string(autocommit ? "on" : "off") +
                          ", transactions are " + isolation + ", and sessions may be idle for " +
                          age_text(idle)};
  std::string advice;
  const auto advise = [&](const std::string& text) {
    advice.append(advice.empty() ? "" : "; ").append(text);
  };
  if (!autocommit) {
    advise(
        "on connections of your own begin transactions with BEGIN: without it a write cannot tell "
        "that there is one");
  }
  if (isolation == "SERIALIZABLE") {
    advise("with SERIALIZABLE your SELECTs lock, and deadlocks are frequent");
  }
  if (idle < limits.idle) {
    advise("raise wait_timeout: transactions after a pause have to connect anew");
  }
  if (!advice.empty()) {
    finding.verdict = Verdict::warning;
    finding.advice = advice;
  }
  return finding;
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
    return {.check = "order",
            .verdict = Verdict::warning,
            .says = "order is not promised: " + reason,
            .advice = "have all writers of an aggregate use one server, or do without order"};
  }
  if (settings.text("innodb_autoinc_lock_mode") == "0") {
    return {.check = "order",
            .verdict = Verdict::warning,
            .says =
                "order is kept, but innodb_autoinc_lock_mode is 0: writers wait for each "
                "other's INSERTs",
            .advice = "set it to 1 or 2; the numbers of an INSERT follow each other with both"};
  }
  return {.check = "order", .says = "one server gives out the numbers of rows, one by one"};
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

std::vector<Finding> judge_settings(const MysqlSettings& settings, const MysqlLimits& limits) {
  return {check_primary(settings),          check_binlog(settings),
          check_durability(settings),       check_packet(settings, limits),
          check_defaults(settings, limits), check_order(settings)};
}

}  // namespace outbox::cli
