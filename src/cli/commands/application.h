// The command line as a whole: what it understands, its help and its completion.
#pragma once

#include "cli/output/console.h"

namespace outbox::cli {

// Reads the command line, does what it says, and returns the exit code; errors
// are told on the console.
int run(int argc, const char* const* argv, const Console& console);

}  // namespace outbox::cli
