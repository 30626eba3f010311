// The processes of a run. Each runs until SIGTERM; the result is its exit code.
#pragma once

#include "settings.h"

namespace outbox::chaos {

// Several threads of the application; they deliver nothing.
int run_writer(const Settings& settings);

// An outbox with its workers, and a little of the application in the same
// process: that is where the direct hot path is. SIGUSR1 ends the application's
// part only.
int run_dispatcher(const Settings& settings);

// Writes down what arrives, then acknowledges it.
int run_receiver(const Settings& settings);

}  // namespace outbox::chaos
