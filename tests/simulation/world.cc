#include "simulation/world.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "simulation/environment.h"
#include "simulation/process.h"

namespace outbox::simulation {
namespace {

using std::chrono::seconds;
using namespace std::chrono_literals;

// A history has 10,000 points on average. One with more than this goes round and round instead of
// waiting for something.
constexpr std::uint64_t kMostPoints = 150'000;

// Longer than a lease, a hang, an outage and the last retry together.
constexpr seconds kRecovery{90};

// Without faults, and shorter than a poll interval: what only a poll finds comes too late.
constexpr seconds kPromptly{3};

class World {
 public:
  World(Choices& choices, Plan plan, Environment::Say violated, Environment::Say trace)
      : env_(choices, std::move(plan), std::move(violated), std::move(trace)) {}

  Figures play() {
    env_.scheduler.run([&] { live(); });
    return {.steps = env_.scheduler.steps(),
            .events = env_.judge->events(),
            .deliveries = env_.judge->deliveries(),
            .faults = env_.faults,
            .seconds = static_cast<std::uint64_t>(
                std::chrono::duration_cast<seconds>(env_.elapsed()).count())};
  }

 private:
  void live();
  void begin();
  void disaster(Disaster kind);
  void fail_over();
  void operate();
  void evict();
  void settle(seconds limit, bool operators);
  bool is_settled();
  void start_process();
  Process* any_alive();
  Process* any_crashed();
  void replay(const std::string& id);
  void discard(const std::string& id);
  void finish_by_hand();

  void sleep(std::chrono::nanoseconds time) {
    env_.scheduler.sleep_until(env_.scheduler.now() + time);
  }
  std::vector<std::string> dead();

  Environment env_;
  std::vector<std::shared_ptr<Process>> processes_;
};

void World::begin() {
  name_this_thread("world");
  env_.say("world", env_.plan.describe());
  memory::Options server = env_.plan.server;
  server.clock = &env_.clock;
  server.connections = 64;
  server.wait_timeout = 2s;
  env_.cluster = std::make_shared<Cluster>(server);
  env_.crashes_left = env_.plan.crashes;
  Environment::Say say;
  if (env_.trace) {
    say = [this](const std::string& what) {
      const Scheduler& scheduler = env_.scheduler;
      env_.say("p" + std::to_string(scheduler.process()) + " " + scheduler.thread_name(), what);
    };
  }
  env_.judge = std::make_shared<Judge>(
      env_.cluster,
      JudgeOptions{.ordering = env_.plan.options.ordering,
                   .on_dead = env_.plan.options.dead.then,
                   .max_attempts = env_.plan.options.retry.max_attempts,
                   .lease = env_.plan.options.lease.duration,
                   .row_claims = env_.plan.options.row_claims,
                   .removes_done = env_.plan.server.on_done == memory::OnDone::remove,
                   .handlers = handlers()},
      env_.violated, std::move(say));
}

void World::live() {
  begin();
  for (int i = 0; i < env_.plan.processes; ++i) start_process();
  if (env_.plan.operators) env_.scheduler.start([this] { operate(); });
  if (env_.plan.crashes > 0) env_.scheduler.start([this] { evict(); });
  for (const Disaster kind : env_.plan.disasters) {
    sleep(1ms * (1U << env_.choices.below(13)));
    disaster(kind);
  }
  sleep(100ms);
  if (any_alive() == nullptr) start_process();
  env_.calm = true;
  env_.say("world", "calm from now on");
  // To look into one that has crashed would be to wait for its locks for ever.
  env_.scheduler.wait_for([&] { return any_crashed() == nullptr; }, env_.scheduler.now() + 60s,
                          "the crashed");
  settle(kRecovery, true);

  // The same once more, when no fault can excuse anything any more.
  sleep(40s);
  env_.judge->calm();
  env_.say("world", "writes again");
  for (const auto& process : processes_) process->write_again();
  env_.scheduler.wait_for(
      [&] {
        return std::all_of(processes_.begin(), processes_.end(), [](const auto& process) {
          return !process->alive() || process->wrote_again();
        });
      },
      env_.scheduler.now() + 60s, "the writers");
  settle(kPromptly, false);
  env_.judge->conclude();

  for (const auto& process : processes_) process->stop();
  const bool ended = env_.scheduler.wait_for(
      [&] {
        return std::none_of(processes_.begin(), processes_.end(),
                            [](const auto& process) { return process->alive(); });
      },
      env_.scheduler.now() + 120s, "the processes");
  if (!ended) env_.violated("close() has not returned for 120 s");
}

void World::start_process() {
  processes_.push_back(std::make_shared<Process>(env_, static_cast<int>(processes_.size()) + 1));
  processes_.back()->start();
}

Process* World::any_alive() {
  std::vector<Process*> alive;
  for (const auto& process : processes_) {
    if (process->alive() && !process->crashes()) alive.push_back(process.get());
  }
  if (alive.empty()) return nullptr;
  return alive[env_.choices.below(static_cast<std::uint32_t>(alive.size()))];
}

// --- What goes wrong ---

void World::disaster(Disaster kind) {
  if (kind == Disaster::outage) {
    const auto time = 100ms * (1 + env_.choices.below(60));
    env_.say("world", "the server is unreachable for " + std::to_string(time.count()) + " ms");
    env_.fault(time);
    env_.server_back = env_.scheduler.now() + time;
    return;
  }
  if (kind == Disaster::failover) return fail_over();
  if (kind == Disaster::join) {
    env_.say("world", "another instance joins");
    return start_process();
  }
  Process* const process = any_alive();
  if (process == nullptr) return;
  const std::string name = "p" + std::to_string(process->id());
  switch (kind) {
    case Disaster::freeze: {
      const auto time = 500ms * (1 + env_.choices.below(16));
      env_.say("world", name + " is frozen for " + std::to_string(time.count()) + " ms");
      env_.fault(time);
      env_.scheduler.freeze(process->id(), env_.scheduler.now() + time);
      env_.judge->was_frozen(process->id());
      break;
    }
    case Disaster::clock:
      env_.say("world", "the clock of " + name + " is set");
      env_.fault();
      process->clock().set_by(env_.choices.below(2) == 0 ? -1h : 1h);
      break;
    case Disaster::stop:
      env_.say("world", name + " is asked to end");
      process->stop();
      start_process();
      break;
    default:
      env_.say("world", name + " is killed");
      process->kill();
      start_process();
      break;
  }
}

void World::fail_over() {
  const auto lag = 10ms * env_.choices.below(100);
  const bool notices = env_.choices.below(2) == 0;
  const auto time = 100ms * (1 + env_.choices.below(30));
  env_.say("world", "what is done from now on will be lost");
  env_.fault(lag + time);
  const std::shared_ptr<Node> primary = env_.cluster->primary();
  {
    MutexLock lock(primary->telling);
    env_.cluster->stop_replication();
    env_.judge->replication_stops();
  }
  sleep(lag);
  env_.say("world", "the standby is promoted; the old primary " +
                        (notices ? std::string("has ended")
                                 : "answers for " + std::to_string(time.count()) + " ms"));
  {
    MutexLock lock(primary->telling);
    env_.cluster->promote(env_.scheduler.now() + (notices ? 0ms : time));
    env_.judge->promoted();
  }
  if (notices) env_.server_back = env_.scheduler.now() + time;
}

// The processes that a listener has crashed.
void World::evict() {
  name_this_thread("crashes");
  while (!env_.calm || any_crashed() != nullptr) {
    env_.scheduler.wait_for([&] { return any_crashed() != nullptr || env_.calm; }, Instant::max(),
                            "a crash");
    if (Process* const process = any_crashed()) {
      process->kill();
      start_process();
    }
  }
}

Process* World::any_crashed() {
  for (const auto& process : processes_) {
    if (process->crashes()) return process.get();
  }
  return nullptr;
}

// --- Operators ---

bool is_dead(Store& store, const std::string& id) {
  const std::optional<EventRecord> found = store.admin().find(id);
  return found && found->row.status == Status::dead;
}

std::vector<std::string> World::dead() {
  std::vector<std::string> ids;
  for (const EventRecord& record :
       env_.cluster->store().admin().list({.status = {Status::dead}}, 0, 1'000)) {
    ids.push_back(record.row.event.id());
  }
  return ids;
}

void World::replay(const std::string& id) {
  const std::shared_ptr<Node> primary = env_.cluster->primary();
  MutexLock lock(primary->telling);
  if (!is_dead(*primary->store, id)) return;
  env_.say("operator", "replays " + id);
  env_.judge->replayed(id);  // first: an owner that reads it now may deliver it
  primary->store->admin().replay(id);
}

void World::discard(const std::string& id) {
  const std::shared_ptr<Node> primary = env_.cluster->primary();
  MutexLock lock(primary->telling);
  if (!is_dead(*primary->store, id)) return;
  env_.say("operator", "discards " + id);
  env_.judge->discarded(id);
  primary->store->admin().discard(id);
}

// As by an UPDATE that makes a pending event DONE, in flight or not.
void World::finish_by_hand() {
  const std::shared_ptr<Node> primary = env_.cluster->primary();
  MutexLock telling(primary->telling);
  const auto pending =
      primary->store->admin().list({.status = {Status::pending, Status::retry}}, 0, 1'000);
  if (pending.empty()) return;
  const Row& row = pending[env_.choices.below(static_cast<std::uint32_t>(pending.size()))].row;
  env_.say("operator", "finishes " + row.event.id() + " by hand");
  env_.judge->finished_by_hand(row.event.id());
  memory::Database& database = *primary->database;
  MutexLock lock(database.mutex);
  database.table.apply(
      {.row = row.ref, .event_id = row.event.id(), .kind = StatusUpdate::Kind::done},
      database.now());
}

void World::operate() {
  name_this_thread("operator");
  while (true) {
    sleep(1ms * (1U << env_.choices.below(env_.plan.only_edits ? 4 : 13)));
    if (env_.calm) return;
    if (env_.plan.only_edits) {
      finish_by_hand();
      continue;
    }
    const std::vector<std::string> ids = dead();
    switch (env_.choices.below(4)) {
      case 0:
        // In the order in which they were parked.
        if (!ids.empty()) replay(ids.front());
        break;
      case 1: {
        if (ids.empty()) break;
        const auto& id = ids[env_.choices.below(static_cast<std::uint32_t>(ids.size()))];
        discard(id);
        break;
      }
      case 2:
        finish_by_hand();
        break;
      default:
        env_.say("operator", "purges");
        env_.cluster->store().admin().purge(Purgeable::done, env_.clock.now() - 1s, 0, 100, false);
        break;
    }
  }
}

// --- The end ---

bool World::is_settled() {
  for (const auto& process : processes_) {
    if (process->alive() && (!process->wrote_all() || process->in_flight() > 0)) return false;
  }
  return !env_.cluster->store().has_pending();
}

void World::settle(seconds limit, bool operators) {
  const bool replays = operators && env_.plan.options.dead.then != OnDead::skip;
  const Instant end = env_.scheduler.now() + limit;
  Instant replay_at = env_.scheduler.now() + 1s;
  const auto is_over = [&] { return is_settled() && (!replays || dead().empty()); };
  while (!is_over()) {
    if (env_.scheduler.now() > end) {
      std::string pending;
      for (const EventRecord& record : env_.cluster->store().admin().list(
               {.status = {Status::pending, Status::retry}}, 0, 10)) {
        pending += " " + record.row.event.id() + " (hold " +
                   (record.hold ? std::to_string(*record.hold) : "none") +
                   (record.locked_by.empty() ? "" : ", locked by " + record.locked_by) + ")";
      }
      for (const auto& process : processes_) {
        if (!process->alive()) continue;
        pending += "; p" + std::to_string(process->id()) + " has " +
                   std::to_string(process->in_flight()) + " in flight";
      }
      env_.violated("stalled: " + std::to_string(limit.count()) + " s after the last " +
                    (operators ? "fault" : "commit") + " there are pending:" + pending);
    }
    if (replays && env_.scheduler.now() >= replay_at) {
      for (const std::string& id : dead()) replay(id);
      replay_at = env_.scheduler.now() + 1s;
    }
    sleep(100ms);
  }
}

}  // namespace

Figures play(Choices& choices, const Scenario* scenario,
             std::function<void(const std::string& what)> violated,
             std::function<void(const std::string& line)> trace) {
  World world(choices, Plan::draw(choices, scenario), violated, std::move(trace));
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
