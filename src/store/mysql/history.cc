#include "store/mysql/history.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string_view>

namespace outbox::mysql {
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
