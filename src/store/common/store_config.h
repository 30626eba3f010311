// What the configurations of stores on databases share: options, and the names of tables.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/bounded.h"
#include "base/quote.h"
#include "base/sql_text.h"
#include "outbox/clock.h"
#include "outbox/error.h"
#include "outbox/log.h"
#include "outbox/spi/json_codec.h"

namespace outbox {

inline void check_not_negative(std::chrono::milliseconds duration, const std::string& option) {
  if (duration >= std::chrono::milliseconds::zero()) return;
  throw MisuseError(option + " is negative: " + std::to_string(duration.count()) + " ms");
}

// Throws MisuseError unless a pool can be made with these. `store`: the namespace of the
// options; `why_limited`: completes "at most N are allowed, because ...".
inline void check_pool_options(std::size_t connections, std::chrono::milliseconds wait_timeout,
                               const std::string& store, std::string_view why_limited) {
  constexpr std::size_t kMostConnections = 10'000;
  if (connections == 0) {
    throw MisuseError(store + "::Options::connections is 0: it needs at least 1");
  }
  if (connections > kMostConnections) {
    throw MisuseError(store + "::Options::connections is " + std::to_string(connections) +
                      ": at most " + std::to_string(kMostConnections) + " are allowed" +
                      (why_limited.empty() ? "" : ", because " + std::string(why_limited)));
  }
  check_not_negative(wait_timeout, store + "::Options::wait_timeout");
}

// Checks them, and fills in what was left out.
template <class Options>
Options resolved(Options options, const std::string& store, std::string_view why_limited = {}) {
  check_pool_options(options.connections, options.wait_timeout, store, why_limited);
  options.wait_timeout = internal::bounded(options.wait_timeout);
  if constexpr (requires { options.statement_timeout; }) {
    check_not_negative(options.statement_timeout, store + "::Options::statement_timeout");
    options.statement_timeout = internal::bounded(options.statement_timeout);
  }
  if (!options.codec) options.codec = default_json_codec();
  if (!options.log) options.log = standard_error_log();
  if (options.clock == nullptr) options.clock = &host_clock();
  return options;
}

// The table of events; `schema` (MySQL says database) may be empty. Servers cut names at 63
// characters or refuse those of more than 64; the longest suffix has eleven.
template <char Quote, std::size_t LongestSchema>
struct TableName {
  static constexpr std::size_t kLongestTable = 48;

  std::string schema{};
  std::string table{};

  // Throws MisuseError unless it is `[schema.]table`, each of letters, digits and _.
  static TableName parse(const std::string& text) {
    TableName name;
    const auto dot = text.find('.');
    if (dot != std::string::npos) {
      name.schema = text.substr(0, dot);
      check(name.schema, LongestSchema);
    }
    name.table = dot == std::string::npos ? text : text.substr(dot + 1);
    check(name.table, kLongestTable);
    return name;
  }

  // Quoted: the table, or with a suffix `<table>_<suffix>`.
  std::string qualified(std::string_view suffix = {}) const {
    const std::string name = unqualified(suffix);
    return schema.empty() ? name : quoted_name(schema, Quote) + "." + name;
  }

  // The same without the schema: PostgreSQL creates an index without one.
  std::string unqualified(std::string_view suffix) const {
    return quoted_name(suffix.empty() ? table : table + "_" + std::string(suffix), Quote);
  }

  std::string text() const { return schema.empty() ? table : schema + "." + table; }

 private:
  static void check(const std::string& name, std::size_t longest) {
    check_table_name(name);
    if (name.size() <= longest) return;
    throw MisuseError("the name " + quote(name) + " is " + std::to_string(name.size()) +
                      " characters long; at most " + std::to_string(longest) + " are allowed");
  }
};

}  // namespace outbox
