// The names of a store's tables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/quote.h"
#include "base/sql_text.h"
#include "outbox/error.h"

namespace outbox {

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
