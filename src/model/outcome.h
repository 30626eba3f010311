// What a call that threw has said.
#pragma once

#include <exception>

#include "outbox/listener.h"

namespace outbox::internal {

// Anything thrown counts, also what is not a std::exception.
Outcome outcome_of(const std::exception_ptr& error);

}  // namespace outbox::internal
