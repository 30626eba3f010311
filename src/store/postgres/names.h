// Names in SQL, and of databases.
#pragma once

#include <string>
#include <string_view>

#include "store/common/table_name.h"

namespace outbox::postgres {

using TableName = outbox::TableName<'"', 63>;

// Fills in the names that SQL text of the library leaves open: `{table}` is the
// table's, `{x}` that of `<table>_x`, `{index x}` the same without its schema;
// `{columns}` lists what decode_row() reads, `{record}` what decode_record() reads,
// and `{filter}` is the condition that an EventFilter binds to.
std::string expand(std::string_view text, const TableName& name);

}  // namespace outbox::postgres
