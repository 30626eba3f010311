#include "client/postgres/settings.h"

#include <string_view>
#include <utility>
#include <vector>

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;
using Settings = std::vector<std::pair<std::string_view, std::string>>;

constexpr int kVersion14 = 140'000;
constexpr int kVersion17 = 170'000;

// A caller that waits for the answer hears from the server before it gives up.
std::string most_of(std::optional<milliseconds> limit) {
  return limit ? std::to_string(limit->count() * 4 / 5) : "0";
}

// What counts within a transaction.
Settings own_settings(Use use, int server_version, const Limits& limits) {
  Settings settings{
      {"statement_timeout", most_of(limits.call)},
      {"lock_timeout", limits.lock ? std::to_string(limits.lock->count()) : most_of(limits.call)},
      {"idle_in_transaction_session_timeout", use == Use::engine ? most_of(limits.call) : "0"},
      {"row_security", "on"},
      {"array_nulls", "on"},
      {"standard_conforming_strings", "on"},
      {"transform_null_equals", "off"},
  };
  if (server_version >= kVersion17) {
    // Ends the session: only for what none of the others has ended.
    settings.emplace_back("transaction_timeout",
                          limits.call ? std::to_string(limits.call->count()) : "0");
  }
  return settings;
}

void add_session_settings(Settings& settings, int server_version) {
  settings.insert(settings.end(), {
                                      {"default_transaction_isolation", "read committed"},
                                      {"default_transaction_read_only", "off"},
                                      {"default_transaction_deferrable", "off"},
                                      // The server's end of a peer that vanished.
                                      {"tcp_keepalives_idle", "15"},
                                      {"tcp_keepalives_interval", "5"},
                                      {"tcp_keepalives_count", "3"},
                                  });
  if (server_version >= kVersion14) settings.emplace_back("idle_session_timeout", "0");
}

// Leaves the planner one way only, and has it look for it once: what a limit is makes no
// difference to it. What has no index (the shards) is read all the same, at a cost that
// would call for the compiler: hence no JIT.
void add_plan_settings(Settings& settings) {
  for (const std::string_view way : {"enable_indexscan", "enable_indexonlyscan", "enable_nestloop",
                                     "enable_sort", "enable_material"}) {
    settings.emplace_back(way, "on");
  }
  for (const std::string_view way :
       {"enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"}) {
    settings.emplace_back(way, "off");
  }
  settings.emplace_back("plan_cache_mode", "force_generic_plan");
}

std::string as_sql(const Settings& settings, bool for_transaction) {
  std::string text = "SELECT ";
  for (const auto& [name, value] : settings) {
    if (text.back() != ' ') text.append(",");
    text.append("set_config('").append(name).append("','").append(value).append("',");
    text.append(for_transaction ? "true)" : "false)");
  }
  return text;
}

}  // namespace

std::string session_settings(Use use, int server_version, const Limits& limits,
                             bool by_index_alone) {
  if (use == Use::users) {
    // A number with fewer digits would be read as another one.
    return "SELECT set_config('extra_float_digits', '1', false) "
           "WHERE current_setting('extra_float_digits')::integer < 1";
  }
  Settings settings = own_settings(use, server_version, limits);
  add_session_settings(settings, server_version);
  if (by_index_alone) add_plan_settings(settings);
  // Alone first, and quick: it may be what would stop the others.
  return "SET statement_timeout = 0; " + as_sql(settings, false);
}

TransactionSettings transaction_settings(Use use, int server_version, const Limits& limits) {
  if (use == Use::users) return {};
  const std::string kind = "ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE";
  return {.begin = "BEGIN " + kind,
          .begin_text = "SET TRANSACTION " + kind,
          .rest = as_sql(own_settings(use, server_version, limits), true)};
}

}  // namespace outbox::postgres
