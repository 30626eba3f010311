// What a server says of itself: its settings, and which history its database has.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "client/mysql/libmariadb.h"
#include "client/mysql/literal.h"
#include "client/mysql/statement.h"

namespace outbox::mysql {

// A variable of a session, and its value as SHOW VARIABLES shows it.
struct SessionSetting {
  std::string_view name;
  std::string_view value;
};

// Whatever the server's settings, its init_connect or the URL say, the library's own
// connections have these, as far as the server knows them. Those that set nothing right
// but keep the optimizer to lists of numbers are among them: a scan of the table would
// lock what others are writing.
inline constexpr SessionSetting kSessionSettings[] = {
    {"autocommit", "ON"},
    {"completion_type", "NO_CHAIN"},
    {"time_zone", "+00:00"},
    {"group_concat_max_len", "1024"},
    {"tx_isolation", "READ-COMMITTED"},
    {"transaction_isolation", "READ-COMMITTED"},
    {"tx_read_only", "OFF"},
    {"transaction_read_only", "OFF"},
    {"sql_safe_updates", "OFF"},
    {"sql_auto_is_null", "OFF"},
    {"sql_buffer_result", "OFF"},
    {"old_mode", ""},
    {"query_cache_type", "OFF"},
    {"check_constraint_checks", "ON"},
    {"foreign_key_checks", "ON"},
    {"unique_checks", "ON"},
    {"max_session_mem_used", "9223372036854775807"},
    {"max_sort_length", "1024"},
    {"tmp_disk_table_size", "18446744073709551615"},
    {"net_read_timeout", "30"},
    {"net_write_timeout", "60"},
    {"in_predicate_conversion_threshold", "0"},
    {"optimizer_max_sel_args", "16000"},
    {"optimizer_max_sel_arg_weight", "32000"},
    {"range_optimizer_max_mem_size", "8388608"},
    {"wsrep_dirty_reads", "OFF"},
    {"wsrep_osu_method", "TOI"},
};

// The variables of a server that the library looks at, as of the moment when a connection
// to it was made; of the session where it has its own.
class Facts {
 public:
  Facts() = default;

  // By name, in small letters. `status` is that of a node of a Galera cluster, empty for
  // other servers.
  Facts(std::map<std::string, std::string, std::less<>> variables,
        std::map<std::string, std::string, std::less<>> status);

  // Asks the server. Throws as throw_failure() does.
  static Facts read(MYSQL* connection, const std::string& where);

  // The same, but only how much it takes and whether it takes writes: by a question that no
  // setting of a user's session can spoil.
  static Facts read_least(MYSQL* connection, const std::string& where);

  bool has(std::string_view variable) const { return variables_.contains(variable); }

  // Empty if the server does not have it.
  const std::string& value(std::string_view variable) const;
  bool is_on(std::string_view variable) const;
  std::size_t max_packet() const;

  bool is_galera() const { return !status_.empty(); }

  // Why it is of no use although it answers: "read_only is ON". Empty if it takes writes.
  std::string unready() const;

  // As the columns of history_columns() say it.
  std::string server() const;

 private:
  std::map<std::string, std::string, std::less<>> variables_;
  std::map<std::string, std::string, std::less<>> status_;
};

// A replica that becomes the primary may lack what the last one had committed: from there
// on it has another history, with other rows under the same numbers. What tells them
// apart is the server, or the cluster, and how far it has come.
struct History {
  std::string server{};    // empty: nothing is known
  std::string position{};  // GTIDs, or how many transactions a cluster has had

  // That the position which append_columns() was told of is in it.
  bool includes_last = true;

  // Appends the three columns that of() reads to a SELECT. `last` is what was known
  // before: MySQL compares its own GTIDs.
  static void append_columns(Built& select, const Facts& facts, const History& last);

  // Of the first row of the result, whose columns begin there.
  static History of(const Result& result, int column);

  // Whether `now`, which was read with the columns for this one, may lack something of it.
  // Another server may, whatever it says: what it has beyond the other one's end is not
  // known. The nodes of a cluster are one.
  bool ends_before(const History& now) const;
};

}  // namespace outbox::mysql
