// The tables, and how they come to be up to date.
#pragma once

#include <vector>

#include "outbox/schema.h"
#include "store/sqlite/database.h"

namespace outbox::sqlite {

// The version that this library works with.
int latest_schema_version();

// All that lead to it, by version; none is said to be applied.
std::vector<SchemaStep> known_schema_steps();

// Brings the tables up to date, each step in a transaction of its own; several
// processes may do so at once. Throws PermanentError if they are newer than
// this library, or out of date and `migrate` is not set.
void ensure_schema(Database& database, bool migrate);

}  // namespace outbox::sqlite
