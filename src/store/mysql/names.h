// Names in SQL.
#pragma once

#include <string>
#include <string_view>

namespace outbox::mysql {

// The table of events; `database` may be empty.
struct TableName {
  std::string database{};
  std::string table{};

  // Throws MisuseError unless it is `[database.]table`, each of letters, digits and _.
  static TableName parse(const std::string& text);

  // Quoted: the table, or with a suffix `<table>_<suffix>`.
  std::string qualified(std::string_view suffix = {}) const;

  std::string text() const { return database.empty() ? table : database + "." + table; }
};

// In backquotes, those inside doubled: right whatever the session's SQL mode is.
std::string quoted_name(std::string_view name);

// Fills in the names that SQL text of the library leaves open: `{table}` is the
// table's, `{x}` that of `<table>_x`, and what columns.h has names for: `{columns}`,
// `{light}`, `{record}`, `{now}`, `{by_number}`, `{dead}`, `{unfinished}` and `{anywhere}`.
std::string expand(std::string_view text, const TableName& name);

}  // namespace outbox::mysql
