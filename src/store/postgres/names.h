// Names in SQL, and of databases.
#pragma once

#include <string>
#include <string_view>

namespace outbox::postgres {

// The table of events; `schema` may be empty.
struct TableName {
  std::string schema{};
  std::string table{};

  // Throws MisuseError unless it is `[schema.]table`, each of letters, digits and _.
  static TableName parse(const std::string& text);

  // Quoted: the table, or with a suffix `<table>_<suffix>`.
  std::string qualified(std::string_view suffix = {}) const;

  // The same without the schema: an index is created without one.
  std::string unqualified(std::string_view suffix) const;

  std::string text() const { return schema.empty() ? table : schema + "." + table; }
};

// Fills in the names that SQL text of the library leaves open: `{table}` is the
// table's, `{x}` that of `<table>_x`, `{index x}` the same without its schema;
// `{columns}` lists what decode_row() reads, `{record}` what decode_record() reads,
// and `{filter}` is the condition that an EventFilter binds to.
std::string expand(std::string_view text, const TableName& name);

}  // namespace outbox::postgres
