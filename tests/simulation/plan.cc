#include "simulation/plan.h"

#include <memory>

#include "simulation/scenarios.h"

namespace outbox::simulation {

using namespace std::chrono_literals;

Plan Plan::draw(Choices& choices, const Scenario* scenario) {
  Plan plan;
  plan.policy =
      choices.below(2) == 0 ? Scheduler::Policy::random_walk : Scheduler::Policy::priorities;
  plan.processes = 1 + static_cast<int>(choices.below(3));
  plan.writers = 1 + static_cast<int>(choices.below(2));
  plan.transactions = 1 + static_cast<int>(choices.below(6));
  plan.aggregates = 1 + static_cast<int>(choices.below(4));

  Options& options = plan.options;
  options.workers = 1 + static_cast<int>(choices.below(3));
  switch (choices.below(6)) {
    case 1:
      options.ordering = Ordering::none;
      break;
    case 2:
      options.ordering = Ordering::total;
      options.mode = Mode::ordered;
      break;
    case 3:
      options.ordering = Ordering::none;
      options.row_claims = true;
      options.mode = Mode::multi_node;
      break;
    default:
      break;
  }
  if (options.ordering != Ordering::none) {
    constexpr OnDead kOnDead[] = {OnDead::skip, OnDead::skip, OnDead::block, OnDead::park};
    options.dead.then = kOnDead[choices.below(4)];
  }
  const std::size_t capacity = std::size_t{4} << (2 * choices.below(3));
  options.queue.hot_capacity = capacity;
  options.queue.cold_capacity = capacity;
  options.queue.batch = 1 + choices.below(8);
  // Nothing but a poll finds what a dead instance has claimed; all else is to be found without.
  const bool polls = choices.below(2) == 0 || options.row_claims;
  options.poll_interval = polls ? 5s : 1h;
  options.lease.duration = 3s;
  options.lease.claim = 4s;
  options.timeouts.hung = 2s;
  options.timeouts.stalled = 6s;
  options.retry.max_attempts = 3;
  options.breaker.max_pause = 1s;
  options.retry.policy = std::make_shared<ExponentialBackoff>(
      ExponentialBackoffOptions{.base = 50ms, .max = 400ms, .random = [] { return 0.5; }});
  constexpr Receiver kReceivers[] = {Receiver::listener, Receiver::listener, Receiver::batch,
                                     Receiver::fan_out};
  plan.receiver = kReceivers[choices.below(4)];

  constexpr int kShards[] = {1, 2, 4};
  constexpr int kShardsInOneOrder[] = {1, 3, 16};
  const auto number = choices.below(3);
  plan.server.shards =
      options.ordering == Ordering::total ? kShardsInOneOrder[number] : kShards[number];
  plan.server.on_done = choices.below(2) == 0 ? memory::OnDone::keep : memory::OnDone::remove;
  plan.server.concurrent_transactions = choices.below(3) > 0;

  constexpr std::uint32_t kRates[] = {0, 60, 15};
  plan.network_faults = kRates[choices.below(3)];
  constexpr std::uint32_t kFailures[] = {0, 8, 3};
  plan.failures = kFailures[choices.below(3)];
  for (auto left = choices.below(5); left > 0; --left) {
    constexpr Disaster kDisasters[] = {Disaster::kill,  Disaster::outage, Disaster::freeze,
                                       Disaster::clock, Disaster::stop,   Disaster::failover,
                                       Disaster::join};
    plan.disasters.push_back(kDisasters[choices.below(7)]);
  }
  plan.crashes = choices.below(4) == 3 ? 6 : 0;
  plan.delayed_events = choices.below(3) == 2;
  plan.operators = choices.below(3) == 2;
  if (scenario == nullptr && choices.below(2) == 1) {
    const auto all = scenarios();
    scenario = &all[choices.below(static_cast<std::uint32_t>(all.size()))];
  }
  if (scenario != nullptr) scenario->pin(plan, choices);
  if (plan.options.mode == Mode::single_node && plan.processes > 1) {
    plan.options.mode = Mode::multi_node;
  }
  return plan;
}

std::string Plan::describe() const {
  const auto number = [](auto value) { return std::to_string(value); };
  constexpr const char* kOrderings[] = {"per aggregate", "none", "total"};
  constexpr const char* kOnDead[] = {"skip", "block", "park"};
  constexpr const char* kReceivers[] = {"listeners", "batch listeners", "fan-outs"};
  return number(processes) + " processes with " + number(writers) + " writers, " +
         number(options.workers) + " workers and " + kReceivers[static_cast<int>(receiver)] + ", " +
         number(aggregates) + " aggregates, " + number(server.shards) + " shards, transactions " +
         (server.concurrent_transactions ? "at the same time" : "one by one") + "; ordering " +
         kOrderings[static_cast<int>(options.ordering)] +
         (options.row_claims ? ", row claims" : "") + ", on_dead " +
         kOnDead[static_cast<int>(options.dead.then)] + "; batch " + number(options.queue.batch) +
         ", capacity " + number(options.queue.hot_capacity) + ", poll interval " +
         number(options.poll_interval.count()) + " ms; " +
         (policy == Scheduler::Policy::random_walk ? "random walk" : "priorities");
}

}  // namespace outbox::simulation
