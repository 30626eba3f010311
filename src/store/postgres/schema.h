// The tables, and how they come to be up to date.
#pragma once

#include <string>

#include "outbox/admin/schema.h"
#include "store/postgres/database.h"

namespace outbox::postgres {

// Where the tables stand. Changes nothing.
SchemaStatus read_schema_status(Database& database);

// Brings the tables up to date, each step in a transaction of its own; several
// processes may do so at once. Throws PermanentError if they are newer than this
// library, or out of date and `migrate` is not set.
void ensure_schema(Database& database, bool migrate);

// The schema that the table is in, whatever the search path of later connections.
std::string schema_of_table(Database& database);

}  // namespace outbox::postgres
