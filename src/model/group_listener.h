// Listeners that have an event once for a group of consumers.
#pragma once

#include <string>

#include "outbox/listener.h"

namespace outbox::internal {

// What such a listener goes by. Two with the same group and the same records have an
// event once between them: in a fan-out the second would never have any.
class GroupListener : public Listener {
 public:
  virtual const std::string& group() const noexcept = 0;

  // What remembers the events, to be compared only.
  virtual const void* records() const noexcept = 0;
};

}  // namespace outbox::internal
