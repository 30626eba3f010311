#include "simulation/plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

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

namespace {

// --- What scenarios have in common ---

void no_faults(Plan& plan) {
  plan.network_faults = 0;
  plan.failures = 0;
  plan.disasters.clear();
  plan.crashes = 0;
  plan.delayed_events = false;
  plan.operators = false;
  plan.only_edits = false;
}

void in_order(Plan& plan) {
  plan.options.ordering = Ordering::per_aggregate;
  plan.options.row_claims = false;
  if (plan.options.mode == Mode::ordered) plan.options.mode = Mode::single_node;
}

// One order of all events, over one shard or many.
void in_one_order(Plan& plan, Choices& choices) {
  plan.options.ordering = Ordering::total;
  plan.options.mode = Mode::ordered;
  plan.options.row_claims = false;
  constexpr int kShards[] = {3, 16};
  plan.server.shards = kShards[choices.below(2)];
}

void without_order(Plan& plan) {
  in_order(plan);
  plan.options.ordering = Ordering::none;
  plan.options.dead.then = OnDead::skip;
}

void with_claims(Plan& plan) {
  without_order(plan);
  plan.options.row_claims = true;
  plan.options.mode = Mode::multi_node;
  plan.options.poll_interval = 5s;  // nothing else finds what a dead instance has claimed
}

// Whatever is found only by the next poll comes too late.
void without_polls(Plan& plan) { plan.options.poll_interval = 1h; }

void failing(Plan& plan, std::vector<Failure> kinds) {
  plan.failures = 3;
  plan.failure_kinds = std::move(kinds);
}

// Of the calls of these names, one in `rate`.
void faulty(Plan& plan, std::uint32_t rate, std::vector<std::string_view> calls,
            std::vector<RequestFault> requests, std::vector<AnswerFault> answers) {
  plan.network_faults = rate;
  plan.faulty_calls = std::move(calls);
  plan.request_faults = std::move(requests);
  plan.answer_faults = std::move(answers);
}

// --- Order ---

void batch_rest(Plan& plan, Choices& /*choices*/) {
  no_faults(plan);
  in_order(plan);
  plan.receiver = Plan::Receiver::batch;
  plan.aggregates = 1;
  plan.transactions = 6;
  plan.options.dead.then = OnDead::skip;
  failing(plan, {Failure::permanent, Failure::failed});
}

void batch_put_back(Plan& plan, Choices& /*choices*/) {
  no_faults(plan);
  in_order(plan);
  plan.receiver = Plan::Receiver::batch;
  plan.writers = 2;
  plan.transactions = 6;
  plan.aggregates = 1;
  plan.options.queue.batch = 8;
  plan.options.queue.hot_capacity = plan.options.queue.cold_capacity = 64;
  plan.options.workers = 3;          // one of which gets an answer,
  plan.options.breaker.pause = 1ms;  // and others are called again soon
  plan.options.breaker.max_pause = 1ms;
  failing(plan, {Failure::unavailable, Failure::failed});
}

void shard_while_restored(Plan& plan, Choices& choices) {
  no_faults(plan);
  in_order(plan);
  plan.processes = 1;
  plan.transactions = 6;
  plan.aggregates = 4;
  plan.server.shards = 4;
  failing(plan, {Failure::failed});
  faulty(plan, 2, {"held_lanes"}, {RequestFault::slow}, {});
  plan.disasters = {Disaster::join, Disaster::kill, Disaster::join};
  if (choices.one_in(2)) plan.disasters.push_back(Disaster::stop);
}

void lost_lease(Plan& plan, Choices& choices) {
  no_faults(plan);
  in_order(plan);
  plan.aggregates = 1 + static_cast<int>(choices.below(2));
  plan.transactions = 6;
  failing(plan, {Failure::failed, Failure::deferred});
  faulty(plan, 4, {"renew", "update"}, {RequestFault::slow, RequestFault::silent},
         {AnswerFault::slow, AnswerFault::lost});
}

void hand_over(Plan& plan, Choices& /*choices*/) {
  no_faults(plan);
  in_order(plan);
  plan.server.shards = 4;
  plan.aggregates = 4;
  plan.transactions = 6;
  failing(plan, {Failure::failed, Failure::hang, Failure::deferred});
  plan.disasters = {Disaster::join, Disaster::stop, Disaster::join, Disaster::stop};
}

void shard_comes_back(Plan& plan, Choices& /*choices*/) {
  no_faults(plan);
  in_order(plan);
  without_polls(plan);
  plan.server.shards = 4;
  plan.aggregates = 4;
  plan.processes = 1;
  plan.writers = 2;
  plan.transactions = 8;
  plan.options.workers = 1;
  plan.options.mode = Mode::multi_node;
  failing(plan, {Failure::unavailable});
  plan.disasters = {Disaster::join, Disaster::freeze, Disaster::freeze};
}

void old_primary(Plan& plan, Choices& choices) {
  no_faults(plan);
  plan.processes = 2;
  plan.transactions = 6;
  if (choices.one_in(2)) failing(plan, {Failure::failed, Failure::deferred});
  faulty(plan, 8, {"renew", "ready", "update"}, {RequestFault::slow, RequestFault::lost},
         {AnswerFault::slow, AnswerFault::lost});
  plan.disasters = {Disaster::failover, Disaster::failover};
}

void acknowledged_and_lost(Plan& plan, Choices& choices) {
  no_faults(plan);
  in_order(plan);
  plan.processes = 2;
  plan.transactions = 6;
  plan.aggregates = 1 + static_cast<int>(choices.below(2));
  failing(plan, {Failure::failed, Failure::deferred});
  faulty(plan, 3, {"update"}, {}, {AnswerFault::slow});
  plan.disasters = {Disaster::failover, Disaster::failover};
}

void later_registration(Plan& plan, Choices& /*choices*/) {
  no_faults(plan);
  in_order(plan);
  plan.options.mode = Mode::multi_node;
  plan.options.lease.duration = 15s;  // the old one has time left
  plan.server.shards = 1;
  plan.processes = 2;
  plan.writers = 2;
  plan.transactions = 8;
  plan.aggregates = 1;
  failing(plan, {Failure::failed, Failure::deferred});
  faulty(plan, 2, {"renew", "insert"}, {}, {AnswerFault::lost, AnswerFault::slow});
  plan.disasters.assign(6, Disaster::failover);
}

void one_order(Plan& plan, Choices& choices) {
  no_faults(plan);
  in_one_order(plan, choices);
  plan.processes = 2;
  plan.writers = 2;
  plan.transactions = 8;
  plan.aggregates = 6;
  failing(plan, {Failure::failed, Failure::deferred, Failure::permanent});
  if (choices.one_in(2)) {
    faulty(plan, 4, {"ready", "held", "update", "renew"},
           {RequestFault::slow, RequestFault::silent, RequestFault::lost},
           {AnswerFault::slow, AnswerFault::lost});
  }
  if (choices.one_in(2)) plan.disasters = {Disaster::kill, Disaster::join, Disaster::freeze};
}

void one_order_taken_over(Plan& plan, Choices& choices) {
  no_faults(plan);
  in_one_order(plan, choices);
  without_polls(plan);
  plan.processes = 2;
  plan.transactions = 8;
  plan.aggregates = 6;
  plan.options.queue.hot_capacity = plan.options.queue.cold_capacity = 4;
  failing(plan, {Failure::failed, Failure::unavailable, Failure::hang});
  plan.disasters = {Disaster::kill, Disaster::stop, Disaster::join, Disaster::failover,
                    Disaster::join};
}

// --- Wake-ups ---

void retry_in_doubt(Plan& plan, Choices& choices) {
  no_faults(plan);
  choices.one_in(2) ? without_order(plan) : in_order(plan);
  without_polls(plan);
  failing(plan, {Failure::failed, Failure::deferred});
  faulty(plan, 3, {"update", "renew"}, {RequestFault::silent, RequestFault::slow},
         {AnswerFault::lost, AnswerFault::slow});
}

void direct_path(Plan& plan, Choices& choices) {
  no_faults(plan);
  without_order(plan);
  without_polls(plan);
  plan.options.queue.hot_capacity = 4;
  if (choices.one_in(2)) plan.options.queue.batch = 1;
  if (choices.one_in(2)) {
    faulty(plan, 4, {"insert", "commit", "rollback", "rollback_to"},
           {RequestFault::lost, RequestFault::slow, RequestFault::deadlock},
           {AnswerFault::lost, AnswerFault::slow});
  }
}

void timers(Plan& plan, Choices& choices) {
  no_faults(plan);
  without_polls(plan);
  if (choices.one_in(2)) with_claims(plan);
  plan.options.poll_interval = 1h;
  plan.delayed_events = true;
  failing(plan, {Failure::failed, Failure::deferred});
}

void blocked_lanes(Plan& plan, Choices& choices) {
  no_faults(plan);
  in_order(plan);
  without_polls(plan);
  plan.options.dead.then = choices.one_in(2) ? OnDead::park : OnDead::block;
  plan.operators = true;
  failing(plan, {Failure::permanent, Failure::failed});
  if (choices.one_in(2)) plan.disasters = {Disaster::kill, Disaster::join};
  if (choices.one_in(2)) faulty(plan, 3, {"update"}, {RequestFault::slow}, {AnswerFault::slow});
}

void replayed_in_doubt(Plan& plan, Choices& choices) {
  no_faults(plan);
  choices.one_in(2) ? without_order(plan) : in_order(plan);
  without_polls(plan);
  plan.transactions = 6;
  plan.options.dead.then = OnDead::skip;
  plan.operators = true;
  failing(plan, {Failure::permanent});
  faulty(plan, 3, {"update"}, {RequestFault::slow}, {AnswerFault::slow});
}

void finished_by_hand(Plan& plan, Choices& choices) {
  no_faults(plan);
  in_order(plan);
  without_polls(plan);
  plan.transactions = 6;
  plan.options.dead.then = choices.one_in(2) ? OnDead::park : OnDead::block;
  plan.operators = true;
  plan.only_edits = true;
  failing(plan, {Failure::permanent, Failure::failed, Failure::deferred});
}

// --- Repeats ---

void fan_out_progress(Plan& plan, Choices& /*choices*/) {
  no_faults(plan);
  plan.receiver = Plan::Receiver::fan_out;
  failing(plan, {Failure::unavailable, Failure::failed, Failure::deferred});
  plan.disasters = {Disaster::stop, Disaster::stop};
}

// --- Loops ---

void poison(Plan& plan, Choices& choices) {
  no_faults(plan);
  if (choices.one_in(3)) with_claims(plan);
  plan.crashes = 6;
  failing(plan, {Failure::failed, Failure::hang, Failure::unavailable});
}

void fenced(Plan& plan, Choices& choices) {
  no_faults(plan);
  choices.one_in(3) ? without_order(plan) : in_order(plan);
  plan.processes = 2;
  plan.transactions = 6;
  plan.aggregates = 1;
  failing(plan, {Failure::failed});
  faulty(plan, 3, {"renew"}, {RequestFault::slow}, {AnswerFault::slow});
  plan.disasters = {Disaster::freeze, Disaster::failover, Disaster::freeze};
}

void failing_reads(Plan& plan, Choices& /*choices*/) {
  no_faults(plan);
  plan.delayed_events = true;
  failing(plan, {Failure::failed});
  faulty(plan, 2, {"ready", "due", "held", "claim"}, {RequestFault::lost}, {});
  plan.disasters = {Disaster::outage};
}

void claims_of_hung_calls(Plan& plan, Choices& /*choices*/) {
  no_faults(plan);
  with_claims(plan);
  plan.transactions = 6;
  failing(plan, {Failure::hang, Failure::failed});
  faulty(plan, 4, {"renew", "update", "claim"}, {RequestFault::silent, RequestFault::slow},
         {AnswerFault::slow});
}

constexpr std::array kScenarios{
    Scenario{"batch_rest", "the rest of a batch was overtaken when its first event was dead",
             batch_rest, 400},
    Scenario{"batch_put_back",
             "an event of a batch came again before the update of a later one was acknowledged",
             batch_put_back, 2'000},
    Scenario{"shard_while_restored",
             "a shard released while its lanes were being restored was read afterwards",
             shard_while_restored, 1'500},
    Scenario{"lost_lease",
             "an instance lost its lease, got it back, and passed over what was in flight",
             lost_lease, 600},
    Scenario{"hand_over", "a shard was handed over while a call hung, and its lane was lost",
             hand_over, 600},
    Scenario{"shard_comes_back", "a shard that came back was read from where it had been left",
             shard_comes_back, 600},
    Scenario{"old_primary", "a lease was renewed at an old primary, and rows read at the new one",
             old_primary, 600},
    Scenario{"acknowledged_and_lost",
             "an update was acknowledged after a failover that had lost it, and its row was passed",
             acknowledged_and_lost, 1'500},
    Scenario{
        "later_registration",
        "a renewal registered at the new primary, its answer was lost, and rows were read there",
        later_registration, 6'000},
    Scenario{"one_order", "an event passed one of another shard, in one order of all", one_order,
             600},
    Scenario{"one_order_taken_over",
             "an event that was held in one shard was passed by another's after a take-over",
             one_order_taken_over, 600},
    Scenario{"retry_in_doubt", "a retry was recorded, its answer lost, and nobody looked for it",
             retry_in_doubt, 600},
    Scenario{"direct_path", "an id stayed reserved, or a row was left to a reader who had passed",
             direct_path, 3'000},
    Scenario{"timers", "only the first of several due times was noted", timers, 4'000},
    Scenario{"blocked_lanes", "a replayed head was not found before the next poll", blocked_lanes,
             400},
    Scenario{"replayed_in_doubt",
             "an event that was replayed before its death was acknowledged was not looked for",
             replayed_in_doubt, 600},
    Scenario{"finished_by_hand",
             "an event that was finished by hand during its last attempt blocked its aggregate",
             finished_by_hand, 600},
    Scenario{"fan_out_progress", "close() forgot which handlers of a fan-out had an event",
             fan_out_progress, 400},
    Scenario{"poison",
             "two threads kept each other busy while candidates of a crash were delivered", poison,
             600},
    Scenario{"fenced", "a fenced instance read and updated the same rows again and again", fenced,
             1'500},
    Scenario{"failing_reads", "a read that fails was repeated without a pause", failing_reads, 400},
    Scenario{"claims_of_hung_calls",
             "an event whose call hangs was claimed and given back without end",
             claims_of_hung_calls, 600},
};

}  // namespace

std::span<const Scenario> scenarios() { return kScenarios; }

const Scenario* find_scenario(std::string_view name) {
  const auto* const found = std::find_if(kScenarios.begin(), kScenarios.end(),
                                         [&](const Scenario& one) { return one.name == name; });
  return found == kScenarios.end() ? nullptr : found;
}

}  // namespace outbox::simulation
