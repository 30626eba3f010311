// Calls listeners, wrapped in interceptors, and says what came of it.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "model/job.h"
#include "outbox/listener.h"
#include "outbox/log.h"

namespace outbox::internal {

// Why such an event cannot be delivered.
std::string no_listener(const Event& event);

// Runs the steps of a delivery: interceptors in order, route, listener,
// interceptors in reverse. Never throws. Thread-safe.
class Deliverer {
 public:
  Deliverer(std::vector<std::shared_ptr<Interceptor>> interceptors, Logger log);

  // Delivers jobs of one route; one outcome each. A fan-out notes in the job
  // which handlers have the event.
  std::vector<Outcome> deliver(std::span<Job> jobs, const std::stop_token& stop) const;

 private:
  // Which interceptors were entered, and how it ended.
  struct Passage {
    std::size_t entered = 0;
    std::exception_ptr error{};
  };

  Passage enter(const Job& job, const std::stop_token& stop) const;
  void leave(const Event& event, const Passage& passage, const Outcome& outcome) const;
  Outcome deliver_one(Job& job, const std::stop_token& stop) const;
  std::vector<Outcome> deliver_batch(std::span<Job> jobs, const std::stop_token& stop) const;

  // Constant after construction.
  const std::vector<std::shared_ptr<Interceptor>> interceptors_;
  const Logger log_;
};

}  // namespace outbox::internal
