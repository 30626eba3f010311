#include "client/mysql/facts.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "client/mysql/statement.h"

namespace outbox::mysql {
namespace {

using Texts = std::map<std::string, std::string, std::less<>>;

constexpr std::string_view kVariables[] = {
    "gtid_current_pos", "gtid_domain_id", "gtid_executed",      "innodb_flush_log_at_trx_commit",
    "innodb_read_only", "log_bin",        "max_allowed_packet", "offline_mode",
    "read_only",        "server_id",      "server_uid",         "server_uuid",
    "super_read_only",  "wsrep_on",       "wsrep_provider",
};

constexpr std::string_view kGaleraStatus =
    "SHOW GLOBAL STATUS WHERE Variable_name IN "
    "('wsrep_ready', 'wsrep_cluster_status', 'wsrep_cluster_state_uuid')";

std::string small(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return result;
}

Result answer(MYSQL* connection, std::string_view question, const std::string& where) {
  constexpr std::string_view kPurpose = "ask the server what it is";
  if (mysql_real_query(connection, question.data(), question.size()) != 0) {
    throw_failure(Failure::of(connection), kPurpose, where);
  }
  const ResultHandle rows(mysql_store_result(connection));
  if (!rows) throw_failure(Failure::of(connection), kPurpose, where);
  return {connection, rows.get(), Result::Names::leave};
}

// Of a SHOW: names and values.
Texts asked(MYSQL* connection, std::string_view question, const std::string& where) {
  const Result rows = answer(connection, question, where);
  Texts answers;
  for (int row = 0; row < rows.rows(); ++row) {
    answers.emplace(small(rows.text(row, 0)), rows.text(row, 1));
  }
  return answers;
}

std::string question_for_variables() {
  std::string names;
  const auto add = [&](std::string_view name) {
    names.append(names.empty() ? "'" : ", '").append(name).append("'");
  };
  for (const std::string_view name : kVariables) add(name);
  for (const SessionSetting& setting : kSessionSettings) add(setting.name);
  return "SHOW VARIABLES WHERE Variable_name IN (" + names + ")";
}

}  // namespace

Facts::Facts(Texts variables, Texts status)
    : variables_(std::move(variables)), status_(std::move(status)) {}

Facts Facts::read(MYSQL* connection, const std::string& where) {
  static const std::string question = question_for_variables();
  Facts facts(asked(connection, question, where), {});
  const std::string& provider = facts.value("wsrep_provider");
  if (facts.is_on("wsrep_on") && !provider.empty() && provider != "none") {
    facts.status_ = asked(connection, kGaleraStatus, where);
  }
  return facts;
}

Facts Facts::read_least(MYSQL* connection, const std::string& where) {
  const bool is_mariadb = mariadb_connection(connection) != 0;
  std::vector<std::string> names{"max_allowed_packet", "read_only", "innodb_read_only"};
  if (!is_mariadb) names.insert(names.end(), {"super_read_only", "offline_mode"});
  std::string question;
  for (const std::string& name : names) {
    question.append(question.empty() ? "SELECT @@" : ", @@").append(name);
  }
  // With a limit of its own sql_select_limit does not count.
  const Result values = answer(connection, question + " LIMIT 1", where);
  Texts variables;
  for (std::size_t i = 0; i < names.size(); ++i) {
    variables.emplace(names[i], std::to_string(values.integer(0, static_cast<int>(i))));
  }
  return {std::move(variables), {}};
}

const std::string& Facts::value(std::string_view variable) const {
  static const std::string nothing;
  const auto found = variables_.find(variable);
  return found == variables_.end() ? nothing : found->second;
}

bool Facts::is_on(std::string_view variable) const {
  const std::string& text = value(variable);
  return text == "ON" || text == "1";
}

std::size_t Facts::max_packet() const {
  const std::string& text = value("max_allowed_packet");
  std::size_t bytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), bytes);
  return bytes;
}

std::string Facts::unready() const {
  for (const std::string_view variable :
       {"read_only", "super_read_only", "innodb_read_only", "offline_mode"}) {
    if (is_on(variable)) return std::string(variable) + " is ON";
  }
  const auto differs = [&](std::string_view name, std::string_view wanted) {
    const auto found = status_.find(name);
    return found != status_.end() && found->second != wanted;
  };
  if (differs("wsrep_ready", "ON")) return "wsrep_ready is " + status_.find("wsrep_ready")->second;
  if (differs("wsrep_cluster_status", "Primary")) {
    return "wsrep_cluster_status is " + status_.find("wsrep_cluster_status")->second;
  }
  return {};
}

std::string Facts::server() const {
  if (is_galera()) {
    const auto found = status_.find("wsrep_cluster_state_uuid");
    return found == status_.end() ? "" : "cluster " + found->second;
  }
  if (has("server_uuid")) return value("server_uuid");
  return value("server_id") + "/" + value("gtid_domain_id") + "/" + value("server_uid");
}

namespace {

// Of MariaDB: "domain-server-number" for each domain, with commas between them.
std::map<std::string, std::uint64_t, std::less<>> numbers_in(std::string_view position) {
  std::map<std::string, std::uint64_t, std::less<>> numbers;
  while (!position.empty()) {
    const std::string_view gtid = position.substr(0, position.find(','));
    position.remove_prefix(std::min(gtid.size() + 1, position.size()));
    const std::string_view number = gtid.substr(gtid.rfind('-') + 1);
    std::uint64_t value = 0;
    std::from_chars(number.data(), number.data() + number.size(), value);
    auto& known = numbers[std::string(gtid.substr(0, gtid.find('-')))];
    known = std::max(known, value);
  }
  return numbers;
}

bool goes_back(std::string_view before, std::string_view now) {
  const auto new_numbers = numbers_in(now);
  const auto old_numbers = numbers_in(before);
  return std::any_of(old_numbers.begin(), old_numbers.end(), [&](const auto& entry) {
    const auto found = new_numbers.find(entry.first);
    return found == new_numbers.end() || found->second < entry.second;
  });
}

}  // namespace

void History::append_columns(Built& select, const Facts& facts, const History& last) {
  if (facts.is_galera()) {
    // What a node has applied; the SELECT that this is part of has waited for all that was
    // committed before (wsrep_sync_wait).
    const std::string_view table = facts.has("server_uuid") ? "performance_schema.global_status"
                                                            : "information_schema.global_status";
    const auto status = [&](std::string_view name) {
      select.sql("(SELECT max(variable_value) FROM ").sql(table);
      select.sql(" WHERE variable_name = ").value(name).sql(")");
    };
    select.sql("concat('cluster ', ");
    status("wsrep_cluster_state_uuid");
    select.sql("), concat('cluster-', ");
    status("wsrep_last_committed");
    select.sql("), 1");
  } else if (facts.has("server_uuid")) {
    const std::string_view executed = facts.has("gtid_executed") ? "@@GLOBAL.gtid_executed" : "''";
    select.sql("@@GLOBAL.server_uuid, ").sql(executed).sql(", ");
    if (facts.has("gtid_executed")) {
      select.sql("gtid_subset(").value(last.position).sql(", @@GLOBAL.gtid_executed)");
    } else {
      select.sql("1");
    }
  } else {
    const std::string_view uid = facts.has("server_uid") ? "@@server_uid" : "''";
    select.sql("concat_ws('/', @@server_id, @@gtid_domain_id, ").sql(uid);
    select.sql("), @@GLOBAL.gtid_current_pos, 1");
  }
}

History History::of(const Result& result, int column) {
  if (result.rows() == 0) return {};
  return {.server = std::string(result.text(0, column)),
          .position = std::string(result.text(0, column + 1)),
          .includes_last = result.integer(0, column + 2) != 0};
}

bool History::ends_before(const History& now) const {
  if (server.empty()) return false;
  if (server != now.server || !now.includes_last) return true;
  // MySQL's are sets, which it has compared itself.
  return position.find(':') == std::string::npos && goes_back(position, now.position);
}

}  // namespace outbox::mysql
