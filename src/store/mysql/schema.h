// The tables, and how they come to be up to date.
#pragma once

#include <string>

#include "outbox/admin/schema.h"
#include "store/mysql/database.h"

namespace outbox::mysql {

// Where the tables stand. Changes nothing.
SchemaStatus read_schema_status(Database& database);

// Brings the tables up to date; several processes may do so at once. The server commits
// every statement by itself, so a step that was interrupted is repeated from its
// beginning. Throws PermanentError if they are newer than this library, or out of date
// and `migrate` is not set.
void ensure_schema(Database& database, bool migrate);

// When the tables were made, as text; empty if this session may not read it or finds none.
std::string born_at(Session& session);

}  // namespace outbox::mysql
