// Calls to hooks whose failures must not reach the caller.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "outbox/log.h"
#include "outbox/writer.h"

namespace outbox::internal {

// Calls one member of every hook, in order; what they throw is logged.
void call_hooks(std::span<const std::shared_ptr<WriterHook>> hooks, const Logger& log,
                void (WriterHook::*member)(std::span<const Written>),
                const std::vector<Written>& events);

}  // namespace outbox::internal
