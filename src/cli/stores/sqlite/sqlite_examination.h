// What `outbox doctor` looks at in an SQLite database.
#pragma once

#include <string>
#include <vector>

#include "cli/stores/backend.h"

namespace outbox::cli {

// The file of that path or URI, absolute if it is a path, if there is none; else empty. For
// messages: without secrets.
std::string missing_sqlite_file(const std::string& path);

// Looks at the file, its folder, the disk, the journal, the soundness of the
// database and the lock file, and changes none of them. Ends early when what
// follows would only repeat the same failure.
std::vector<Finding> examine_sqlite(const std::string& path, const std::string& table,
                                    const ExamineOptions& options);

}  // namespace outbox::cli
