// Whether a store's tables can be worked with.
#pragma once

#include "cli/stores/backend.h"

namespace outbox::cli {

// Throws ConfigurationError that says what to do unless the tables are there and
// up to date.
void check_schema(const Backend& backend, const SchemaStatus& status);

}  // namespace outbox::cli
