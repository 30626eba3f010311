#include "simulation/world.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "simulation/client_store.h"
#include "simulation/judge.h"
#include "simulation/scheduler.h"
#include "threads/thread.h"

namespace outbox::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using namespace std::chrono_literals;

// A history has 8,000 points on average. One with more than this goes round and round instead of
// waiting for something.
constexpr std::uint64_t kMostPoints = 1'000'000;

// The clocks of a process, or of the server. Its time of day may be set.
class SimulatedClock final : public Clock {
 public:
  Time now() const override {
    return Time{std::chrono::duration_cast<microseconds>(steady().time_since_epoch())} +
           std::chrono::years{55} + offset_;
  }
  Steady steady() const override {
    const Scheduler* const scheduler = Scheduler::here();
    return scheduler == nullptr ? Steady{} : scheduler->now();
  }
  void set_by(microseconds by) { offset_ += by; }

 private:
  microseconds offset_{0};
};

// What is drawn once, for the whole history.
struct Plan {
  Scheduler::Policy policy{};
  int processes = 1;
  int writers = 1;
  int transactions = 1;  // of each writer
  int aggregates = 1;
  Options options{};
  memory::Options server{};

  // One in so many, 0: never.
  std::uint32_t network_faults = 0;  // calls
  std::uint32_t failures = 0;        // deliveries
  int disasters = 0;                 // kills, freezes, outages, clocks
  bool delayed_events = false;

  static Plan draw(Choices& choices);
  std::string describe() const;
};

Plan Plan::draw(Choices& choices) {
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
  if (options.mode == Mode::single_node && plan.processes > 1) options.mode = Mode::multi_node;
  const std::size_t capacity = std::size_t{4} << (2 * choices.below(3));
  options.hot_capacity = capacity;
  options.cold_capacity = capacity;
  options.batch = 1 + choices.below(8);
  // Nothing but a poll finds what a dead instance has claimed; all else is to be found without.
  const bool polls = choices.below(2) == 0 || options.row_claims;
  options.poll_interval = polls ? 5s : 1h;
  options.lease = 3s;
  options.lock_timeout = 4s;
  options.hung_after = 2s;
  options.stalled_after = 6s;
  options.max_attempts = 3;
  options.max_pause = 1s;
  options.retry = std::make_shared<ExponentialBackoff>(
      ExponentialBackoffOptions{.base = 50ms, .max = 400ms, .random = [] { return 0.5; }});

  plan.server.shards = options.ordering == Ordering::total ? 1 : 1 << choices.below(3);
  plan.server.on_done = choices.below(2) == 0 ? memory::OnDone::keep : memory::OnDone::remove;

  constexpr std::uint32_t kRates[] = {0, 60, 15};
  plan.network_faults = kRates[choices.below(3)];
  constexpr std::uint32_t kFailures[] = {0, 8, 3};
  plan.failures = kFailures[choices.below(3)];
  plan.disasters = static_cast<int>(choices.below(5));
  plan.delayed_events = choices.below(3) == 2;
  return plan;
}

std::string Plan::describe() const {
  const auto number = [](auto value) { return std::to_string(value); };
  constexpr const char* kOrderings[] = {"per aggregate", "none", "total"};
  return number(processes) + " processes with " + number(writers) + " writers and " +
         number(options.workers) + " workers, " + number(aggregates) + " aggregates, " +
         number(server.shards) + " shards; ordering " +
         kOrderings[static_cast<int>(options.ordering)] +
         (options.row_claims ? ", row claims" : "") + "; batch " + number(options.batch) +
         ", capacity " + number(options.hot_capacity) + ", poll interval " +
         number(options.poll_interval.count()) + " ms; " +
         (policy == Scheduler::Policy::random_walk ? "random walk" : "priorities");
}

class World;

// A process with an engine, from its start to its end.
class Process final : public Network, public std::enable_shared_from_this<Process> {
 public:
  Process(World& world, int id) : world_(world), id_(id) {}

  void start();
  void stop() { stopping_ = true; }
  void kill();

  int id() const { return id_; }
  bool alive() const override { return !ended_ && !killed_; }
  bool ended() const { return ended_; }
  bool wrote_all() const { return writing_ == 0; }
  SimulatedClock& clock() { return clock_; }

  void request(std::string_view call) override;
  bool loses_answer(std::string_view call) override;

 private:
  void run();
  void write(Outbox& box, int writer);
  Outcome deliver(const Event& event, const Delivery& delivery);
  void say(const std::string& what) const;

  World& world_;
  const int id_;
  SimulatedClock clock_;
  std::shared_ptr<Store> store_;
  bool stopping_ = false;
  bool killed_ = false;
  bool ended_ = false;
  int writing_ = 0;
};

class World {
 public:
  using Say = std::function<void(const std::string&)>;

  World(Choices& drawn_from, Plan drawn, Say on_violation, Say on_step)
      : choices(drawn_from),
        plan(std::move(drawn)),
        scheduler(choices, plan.policy),
        trace(std::move(on_step)),
        violated(std::move(on_violation)) {
    plan.server.clock = &clock;
    plan.server.connections = 64;
    plan.server.wait_timeout = 60s;
  }

  Figures play() {
    scheduler.run([&] { live(); });
    return {.steps = scheduler.steps(),
            .events = judge->events(),
            .deliveries = judge->deliveries(),
            .faults = faults,
            .seconds = static_cast<std::uint64_t>(
                std::chrono::duration_cast<seconds>(scheduler.now() - Instant{1h}).count())};
  }

  void fault() {
    ++faults;
    judge->fault();
  }

  void say(const std::string& who, const std::string& what) const {
    if (!trace) return;
    const auto at = std::chrono::duration_cast<microseconds>(scheduler.now() - Instant{1h});
    std::string time = std::to_string(at.count() / 1000);
    time.insert(0, time.size() < 7 ? 7 - time.size() : 0, ' ');
    std::string micros = std::to_string(at.count() % 1000);
    micros.insert(0, 3 - micros.size(), '0');
    trace(time + "." + micros + " ms  " + who + "  " + what);
  }

  Choices& choices;
  Plan plan;
  Scheduler scheduler;
  const Say trace;
  const Say violated;
  SimulatedClock clock;
  std::shared_ptr<Store> server;
  std::shared_ptr<Judge> judge;
  bool calm = false;  // no more faults
  Instant server_back{};
  std::uint64_t faults = 0;

 private:
  void live();
  void disaster();
  void start_process();
  void sleep(std::chrono::nanoseconds time) { scheduler.sleep_until(scheduler.now() + time); }
  Process* any_alive();
  bool is_settled();

  std::vector<std::shared_ptr<Process>> processes_;
};

// --- A process ---

void Process::say(const std::string& what) const {
  if (!world_.trace) return;
  world_.say("p" + std::to_string(id_) + " " + world_.scheduler.thread_name(), what);
}

void Process::start() {
  writing_ = world_.plan.writers;
  world_.scheduler.start_process(id_, [self = shared_from_this()] {
    name_this_thread("main");
    try {
      self->run();
    } catch (const std::exception& error) {
      self->world_.violated(std::string("an exception: ") + error.what());
    }
  });
}

void Process::kill() {
  killed_ = true;
  world_.fault();
  world_.scheduler.kill(id_);
  world_.judge->was_killed(id_);
  // The server notices, and rolls back.
  const bool gone = world_.scheduler.wait_for([&] { return world_.scheduler.is_gone(id_); },
                                              world_.scheduler.now() + 1h, "the server");
  if (gone && store_) end_connections(*store_);
}

void Process::request(std::string_view call) {
  Scheduler& scheduler = world_.scheduler;
  Choices& choices = world_.choices;
  scheduler.point();
  if (const auto delay = choices.below(4); delay > 0) {
    scheduler.sleep_until(scheduler.now() + microseconds{100} * delay * delay);
  }
  if (scheduler.now() < world_.server_back) {
    say(std::string(call) + ": the server is away");
    scheduler.sleep_until(scheduler.now() + 5ms);
    throw RetryableError("the server is away");
  }
  if (world_.calm || world_.plan.network_faults == 0 ||
      !choices.one_in(world_.plan.network_faults)) {
    return;
  }
  world_.fault();
  switch (choices.below(3)) {
    case 0:
      say(std::string(call) + ": does not reach the server");
      throw RetryableError("the connection was lost");
    case 1: {
      const auto time = 200ms * (1 + choices.below(20));
      say(std::string(call) + ": takes " + std::to_string(time.count()) + " ms");
      scheduler.sleep_until(scheduler.now() + time);
      return;
    }
    default:
      say(std::string(call) + ": gets no answer for 10 s");
      scheduler.sleep_until(scheduler.now() + 10s);
      throw RetryableError("no answer");
  }
}

bool Process::loses_answer(std::string_view call) {
  if (world_.calm || world_.plan.network_faults == 0 ||
      !world_.choices.one_in(2 * world_.plan.network_faults)) {
    return false;
  }
  world_.fault();
  say(std::string(call) + ": the answer is lost");
  return true;
}

void Process::run() {
  store_ = client_store(world_.server, shared_from_this(), world_.judge, clock_);
  Listeners listeners;
  listeners.add("Order", "Changed", [this](const Event& event, const Delivery& delivery) {
    return deliver(event, delivery);
  });
  Options options = world_.plan.options;
  options.name = "p" + std::to_string(id_);
  options.log = [this](LogLevel /*level*/, std::string_view text) {
    say("log: " + std::string(text));
  };
  {
    Outbox box(store_, std::move(listeners), options);
    box.start();
    say("started");
    std::vector<Thread> writers;
    for (int writer = 0; writer < world_.plan.writers; ++writer) {
      writers.emplace_back([this, &box, writer] {
        name_this_thread("writer " + std::to_string(writer));
        write(box, writer);
        --writing_;
      });
    }
    writers.clear();
    world_.scheduler.wait_for([&] { return stopping_; }, Instant::max(), "being asked to end");
    say("closes");
    box.close();
    // After a fault the store may not have taken every mark in time.
    if (world_.faults == 0 && box.in_flight() != 0) {
      world_.violated("in flight: " + std::to_string(box.in_flight()) + " events after close()");
    }
  }
  say("ended");
  ended_ = true;
}

void Process::write(Outbox& box, int writer) {
  Choices& choices = world_.choices;
  for (int n = 0; n < world_.plan.transactions; ++n) {
    try {
      Transaction transaction = box.begin();
      const auto events = 1 + choices.below(3);
      for (std::uint32_t i = 0; i < events; ++i) {
        Draft draft{.type = "Changed", .aggregate_type = "Order"};
        draft.aggregate_id =
            "a" + std::to_string(choices.below(static_cast<std::uint32_t>(world_.plan.aggregates)));
        draft.payload = json("{}");
        draft.id = std::to_string(id_) + "." + std::to_string(writer) + "." + std::to_string(n) +
                   "." + std::to_string(i);
        if (world_.plan.delayed_events && choices.one_in(4)) draft.deliver_after = 700ms;
        say("writes " + *draft.id + " of " + draft.aggregate_id);
        transaction.write(std::move(draft));
      }
      if (choices.one_in(6)) {
        say("rolls back");
        transaction.rollback();
      } else {
        transaction.commit();
        say("committed");
      }
    } catch (const Error& error) {
      say(std::string("transaction failed: ") + error.what());
    }
    if (choices.one_in(3)) sleep_for(1ms * (1U << choices.below(12)));
  }
}

Outcome Process::deliver(const Event& event, const Delivery& delivery) {
  Choices& choices = world_.choices;
  say("delivers " + event.id() + " of " + event.aggregate_id() + ", attempt " +
      std::to_string(delivery.attempt) + ", epoch " + std::to_string(delivery.epoch));
  world_.judge->begins(id_, event, delivery);
  if (choices.one_in(4)) sleep_for(1ms * (1 + choices.below(20)));
  Outcome outcome = Outcome::done();
  if (!world_.calm && world_.plan.failures > 0 && choices.one_in(world_.plan.failures)) {
    switch (choices.below(5)) {
      case 0:
        outcome = Outcome::failed("it failed");
        break;
      case 1:
        outcome = Outcome::retry_after(30ms);
        break;
      case 2:
        outcome = Outcome::unavailable("it is away");
        break;
      case 3:
        outcome = Outcome::permanent("it is wrong");
        break;
      default:
        world_.fault();
        say("hangs in " + event.id());
        sleep_for(20s);
        break;
    }
  }
  say("has delivered " + event.id() + (outcome.kind() == Outcome::Kind::done ? "" : ": it failed"));
  world_.judge->ends(id_, event, outcome.kind());
  return outcome;
}

// --- The world ---

void World::start_process() {
  processes_.push_back(std::make_shared<Process>(*this, static_cast<int>(processes_.size()) + 1));
  processes_.back()->start();
}

Process* World::any_alive() {
  std::vector<Process*> alive;
  for (const auto& process : processes_) {
    if (process->alive()) alive.push_back(process.get());
  }
  if (alive.empty()) return nullptr;
  return alive[choices.below(static_cast<std::uint32_t>(alive.size()))];
}

void World::disaster() {
  const auto kind = choices.below(5);
  if (kind == 1) {
    const auto time = 100ms * (1 + choices.below(60));
    say("world", "the server is away for " + std::to_string(time.count()) + " ms");
    fault();
    server_back = scheduler.now() + time;
    return;
  }
  Process* const process = any_alive();
  if (process == nullptr) return;
  const std::string name = "p" + std::to_string(process->id());
  switch (kind) {
    case 2: {
      const auto time = 500ms * (1 + choices.below(16));
      say("world", name + " is frozen for " + std::to_string(time.count()) + " ms");
      fault();
      scheduler.freeze(process->id(), scheduler.now() + time);
      break;
    }
    case 3:
      say("world", "the clock of " + name + " is set");
      fault();
      process->clock().set_by(choices.below(2) == 0 ? -1h : 1h);
      break;
    case 4:
      say("world", name + " is asked to end");
      process->stop();
      start_process();
      break;
    default:
      say("world", name + " is killed");
      process->kill();
      start_process();
      break;
  }
}

bool World::is_settled() {
  for (const auto& process : processes_) {
    if (process->alive() && !process->wrote_all()) return false;
  }
  return !server->has_pending();
}

void World::live() {
  name_this_thread("world");
  say("world", plan.describe());
  server = memory::open(plan.server);
  judge = std::make_shared<Judge>(
      *server,
      JudgeOptions{.ordering = plan.options.ordering, .max_attempts = plan.options.max_attempts},
      violated,
      trace ? Say([this](const std::string& what) {
        say("p" + std::to_string(scheduler.process()) + " " + scheduler.thread_name(), what);
      })
            : Say());
  for (int i = 0; i < plan.processes; ++i) start_process();
  for (int i = 0; i < plan.disasters; ++i) {
    sleep(1ms * (1U << choices.below(13)));
    disaster();
  }
  sleep(100ms);
  if (any_alive() == nullptr) start_process();
  calm = true;
  say("world", "calm from now on");

  // Longer than a lease, a hang, an outage and the last retry together.
  const Instant limit = scheduler.now() + 90s;
  while (!is_settled()) {
    if (scheduler.now() > limit) {
      std::string pending;
      for (const EventRecord& record :
           server->list({.status = {Status::fresh, Status::retry}}, 0, 10)) {
        pending += " " + record.row.event.id() + " (hold " +
                   (record.hold ? std::to_string(*record.hold) : "none") +
                   (record.locked_by.empty() ? "" : ", locked by " + record.locked_by) + ")";
      }
      violated("stalled: 90 s after the last fault there are pending:" + pending);
    }
    sleep(100ms);
  }
  judge->conclude();
  for (const auto& process : processes_) process->stop();
  const bool ended = scheduler.wait_for(
      [&] {
        return std::none_of(processes_.begin(), processes_.end(),
                            [](const auto& process) { return process->alive(); });
      },
      scheduler.now() + 120s, "the processes");
  if (!ended) violated("close() has not returned for 120 s");
}

}  // namespace

Figures play(Choices& choices, std::function<void(const std::string& what)> violated,
             std::function<void(const std::string& line)> trace) {
  World world(choices, Plan::draw(choices), violated, std::move(trace));
  try {
    const Figures figures = world.play();
    if (figures.steps > kMostPoints) {
      violated("busy: " + std::to_string(figures.steps) + " points for " +
               std::to_string(figures.deliveries) + " deliveries");
    }
    return figures;
  } catch (const Deadlock& deadlock) {
    violated(std::string("deadlock: ") + deadlock.what());
  } catch (const std::exception& error) {
    violated(std::string("an exception: ") + error.what());
  }
  return {};
}

}  // namespace outbox::simulation
