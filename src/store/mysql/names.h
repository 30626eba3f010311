// Names in SQL.
#pragma once

#include <string>
#include <string_view>

#include "base/sql_text.h"
#include "store/common/table_name.h"

namespace outbox::mysql {

using TableName = outbox::TableName<'`', 64>;

// In backquotes, those inside doubled: right whatever the session's SQL mode is.
inline std::string quoted_name(std::string_view name) { return outbox::quoted_name(name, '`'); }

// Fills in the names that SQL text of the library leaves open: `{table}` is the
// table's, `{x}` that of `<table>_x`, and what columns.h has names for: `{columns}`,
// `{light}`, `{record}`, `{now}`, `{by_number}`, `{dead}`, `{unfinished}` and `{anywhere}`.
std::string expand(std::string_view text, const TableName& name);

}  // namespace outbox::mysql
