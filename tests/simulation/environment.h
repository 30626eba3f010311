// What the processes of a simulated history share.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "outbox/clock.h"
#include "simulation/choices.h"
#include "simulation/cluster.h"
#include "simulation/judge.h"
#include "simulation/plan.h"
#include "simulation/scheduler.h"

namespace outbox::simulation {

// The clocks of a process, or of the server. Its time of day may be set.
class SimulatedClock final : public Clock {
 public:
  Time now() const override {
    return Time{
               std::chrono::duration_cast<std::chrono::microseconds>(steady().time_since_epoch())} +
           std::chrono::years{55} + offset_;
  }
  Steady steady() const override {
    const Scheduler* const scheduler = Scheduler::here();
    return scheduler == nullptr ? Steady{} : scheduler->now();
  }
  void set_by(std::chrono::microseconds by) { offset_ += by; }
  bool is_right() const { return offset_.count() == 0; }

 private:
  std::chrono::microseconds offset_{0};
};

struct Environment {
  using Say = std::function<void(const std::string&)>;

  Environment(Choices& drawn_from, Plan drawn, Say on_violation, Say on_step)
      : choices(drawn_from),
        plan(std::move(drawn)),
        scheduler(choices, plan.policy),
        trace(std::move(on_step)),
        violated(std::move(on_violation)) {}

  // Something goes wrong from now on, for so long.
  void fault(std::chrono::nanoseconds time = {}) {
    ++faults;
    judge->fault(scheduler.now(), scheduler.now() + time);
  }

  std::chrono::microseconds elapsed() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(scheduler.now() -
                                                                 Instant{std::chrono::hours{1}});
  }

  void say(const std::string& who, const std::string& what) const {
    if (!trace) return;
    const auto at = elapsed().count();
    std::string time = std::to_string(at / 1000);
    time.insert(0, time.size() < 7 ? 7 - time.size() : 0, ' ');
    std::string micros = std::to_string(at % 1000);
    micros.insert(0, 3 - micros.size(), '0');
    trace(time + "." + micros + " ms  " + who + "  " + what);
  }

  Choices& choices;
  const Plan plan;
  Scheduler scheduler;
  const Say trace;
  const Say violated;
  SimulatedClock clock;  // the server's
  std::shared_ptr<Cluster> cluster;
  std::shared_ptr<Judge> judge;
  bool calm = false;  // no more faults
  Instant server_back{};
  std::uint64_t faults = 0;
  int crashes_left = 0;
};

}  // namespace outbox::simulation
