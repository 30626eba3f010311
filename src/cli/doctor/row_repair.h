// Rows whose status and hold contradict each other, and what becomes of them.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/backend.h"

namespace outbox::cli {

// The rules, the same on every database. The status is what people set, so the hold follows
// it; nothing is delivered that may have been, and nothing is deleted:
//
//   NEW, RETRY   becomes due, at its available_at or at once
//   DONE         is finished: hold NULL
//   DEAD         is finished and blocks nobody: hold NULL
//   no status    becomes DEAD, with a note in last_error; an operator may replay it
//
// Without `repair` it only says what it would do. With it, rows are changed by short
// transactions, each row only if it still contradicts itself. A row that the store refuses to
// change, or that somebody keeps locked, does not keep the others from being repaired. What
// the store throws becomes a finding.
std::vector<Finding> check_rows(Backend& backend, Store& store, bool repair);

}  // namespace outbox::cli
