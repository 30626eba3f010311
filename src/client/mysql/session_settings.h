// What can change a result of the library's own statements, or stop them.
#pragma once

#include <string_view>

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

}  // namespace outbox::mysql
