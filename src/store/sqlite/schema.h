// The tables, and how they come to be up to date.
#pragma once

#include "store/common/migrations.h"
#include "store/sqlite/database.h"

namespace outbox::sqlite {

const Migrations& migrations();

// Brings the tables up to date, each step in a transaction of its own; several
// processes may do so at once. Throws PermanentError if they are newer than
// this library, or out of date and `migrate` is not set.
void ensure_schema(Database& database, bool migrate);

}  // namespace outbox::sqlite
