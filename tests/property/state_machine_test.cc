// An outbox driven step by step through random histories, compared with a
// model. rapidcheck prints the seed of a failure; RC_PARAMS="seed=..." repeats
// it.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

constexpr int kMaxAttempts = 3;

// What the listener is told to do with an event, call by call; then it is done.
enum class Answer { fail, permanent, defer, unavailable };

// The events as they should be.
struct Expected {
  std::string aggregate;
  std::vector<Answer> script;  // of the present life
  std::size_t next = 0;        // in the script
  bool delayed = false;
  bool discarded = false;
};

struct Command {
  enum class Kind { write, write_delayed, roll_back, restart, hand_over, advance, replay, discard };
  Kind kind = Kind::write;
  int aggregate = 0;
  int pick = 0;
  std::vector<Answer> script{};
};

// For the report of a failure.
void showValue(const Command& command, std::ostream& out) {
  static constexpr const char* kKinds[] = {"write",     "write_delayed", "roll_back", "restart",
                                           "hand_over", "advance",       "replay",    "discard"};
  static constexpr const char* kAnswers[] = {"fail", "permanent", "defer", "unavailable"};
  out << kKinds[static_cast<int>(command.kind)] << " " << command.aggregate;
  for (const Answer answer : command.script) out << " " << kAnswers[static_cast<int>(answer)];
}

rc::Gen<Command> command() {
  using Kind = Command::Kind;
  return rc::gen::build<Command>(
      rc::gen::set(&Command::kind, rc::gen::weightedElement<Kind>({{10, Kind::write},
                                                                   {2, Kind::write_delayed},
                                                                   {2, Kind::roll_back},
                                                                   {2, Kind::restart},
                                                                   {1, Kind::hand_over},
                                                                   {4, Kind::advance},
                                                                   {2, Kind::replay},
                                                                   {1, Kind::discard}})),
      rc::gen::set(&Command::aggregate, rc::gen::inRange(0, 3)),
      rc::gen::set(&Command::pick, rc::gen::inRange(0, 1000)),
      rc::gen::set(
          &Command::script,
          rc::gen::resize(4, rc::gen::container<std::vector<Answer>>(
                                 rc::gen::weightedElement<Answer>({{6, Answer::fail},
                                                                   {1, Answer::permanent},
                                                                   {2, Answer::defer},
                                                                   {1, Answer::unavailable}})))));
}

// One history on one store.
class World {
 public:
  World(std::shared_ptr<Store> store, testing::ManualClock& clock, OnDead on_dead)
      : store_(std::move(store)), clock_(clock), on_dead_(on_dead) {
    box_ = open();
  }

  void run(const Command& command) {
    switch (command.kind) {
      case Command::Kind::write:
      case Command::Kind::write_delayed:
        return write(command, command.kind == Command::Kind::write_delayed);
      case Command::Kind::roll_back: {
        auto tx = box_->begin();
        const std::lock_guard lock(mutex_);
        rolled_back_.insert(tx.write(draft(command)));
        return;
      }
      case Command::Kind::restart:
        box_.reset();
        box_ = open();
        return;
      case Command::Kind::hand_over: {
        auto next = open();  // a standby, or takes its share
        box_ = std::move(next);
        return;
      }
      case Command::Kind::advance:
        clock_.advance(700ms);
        box_->wake();
        return;
      case Command::Kind::replay:
        if (const auto id = pick(command, Status::dead)) {
          const std::lock_guard lock(mutex_);
          expected_.at(*id).script.clear();
          expected_.at(*id).next = 0;
          replayed_.insert(*id);
          RC_ASSERT(store_->admin().replay(*id));
          box_->wake();
        }
        return;
      case Command::Kind::discard:
        if (const auto id = pick(command, Status::dead)) {
          RC_ASSERT(store_->admin().discard(*id));
          const std::lock_guard lock(mutex_);
          expected_.at(*id).discarded = true;
          box_->wake();
        }
        return;
    }
  }

  // Lets time pass until nothing more can happen.
  void settle() {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    // Asked once each time: a delayed event behind a dead one may move a moment later.
    bool over = finished();
    while (!over && std::chrono::steady_clock::now() < deadline) {
      clock_.advance(200ms);
      box_->wake();
      std::this_thread::sleep_for(200us);  // nobody announces what a wake-up came to
      over = finished();
    }
    std::string left;
    for (const HeldAggregate& held : store_->admin().held_aggregates(100)) {
      left += held.aggregate_id + " " + std::string(to_string(held.head_status)) + " +" +
              std::to_string(held.waiting) + "; ";
    }
    RC_LOG() << "pending " << store_->counts().pending << ", dead " << store_->counts().dead
             << ", in flight " << box_->in_flight() << ", held " << left;
    RC_ASSERT(over);
  }

  void check() {
    const std::lock_guard lock(mutex_);
    RC_ASSERT(problems_.empty());
    std::map<std::string, std::vector<std::string>> written;
    for (const std::string& id : order_) {
      const Expected& event = expected_.at(id);
      const auto record = store_->admin().find(id);
      if (event.discarded) {
        RC_ASSERT(!record);
        continue;
      }
      RC_ASSERT(record.has_value());  // nothing is lost
      const auto done = std::count(successes_.begin(), successes_.end(), id);
      switch (record->row.status) {
        case Status::done:
          RC_ASSERT(done == 1);  // exactly once, since nothing crashed
          break;
        case Status::dead:
          RC_ASSERT(done == 0);
          break;
        case Status::pending:
        case Status::retry:
          // Behind a dead one. (Of a long lane `park` makes DEAD as many as a
          // read brings; the others wait all the same.)
          RC_ASSERT(on_dead_ != OnDead::skip);
          RC_ASSERT(done == 0);
          break;
      }
      if (record->row.status == Status::dead && !replayed_.contains(id)) {
        const auto [attempts, dies] = fate(event.script);
        const bool parked = record->last_error.rfind("parked", 0) == 0;
        RC_ASSERT(parked || dies);
        if (!parked) RC_ASSERT(record->row.attempts == attempts);
      }
      if (!event.delayed && !replayed_.contains(id)) written[event.aggregate].push_back(id);
    }
    for (const std::string& id : successes_) RC_ASSERT(!rolled_back_.contains(id));
    for (const auto& [aggregate, ids] : written) {
      // First successes come in the order of writing.
      std::vector<std::string> delivered;
      for (const std::string& id : successes_) {
        if (std::find(ids.begin(), ids.end(), id) != ids.end()) delivered.push_back(id);
      }
      std::vector<std::string> sorted;
      for (const std::string& id : ids) {
        if (std::find(delivered.begin(), delivered.end(), id) != delivered.end()) {
          sorted.push_back(id);
        }
      }
      RC_ASSERT(delivered == sorted);
    }
  }

 private:
  static Draft draft(const Command& command) {
    return {.type = "Happened",
            .aggregate_type = "Order",
            .aggregate_id = std::to_string(command.aggregate),
            .payload = json("{}")};
  }

  // How many attempts a script spends, and whether it ends DEAD.
  static std::pair<int, bool> fate(const std::vector<Answer>& script) {
    int attempts = 0;
    for (const Answer answer : script) {
      if (answer == Answer::permanent) return {attempts + 1, true};
      if (answer == Answer::fail && ++attempts == kMaxAttempts) return {attempts, true};
    }
    return {attempts, false};
  }

  void write(const Command& command, bool delayed) {
    Draft event = draft(command);
    if (delayed) event.deliver_after = 1500ms;
    auto tx = box_->begin();
    const std::string id = tx.write(event);
    {
      const std::lock_guard lock(mutex_);
      expected_[id] = {.aggregate = std::to_string(command.aggregate),
                       .script = command.script,
                       .delayed = delayed};
      order_.push_back(id);
    }
    tx.commit();
  }

  std::optional<std::string> pick(const Command& command, Status status) {
    std::vector<std::string> found;
    for (const std::string& id : order_) {
      const auto record = store_->admin().find(id);
      if (record && record->row.status == status) found.push_back(id);
    }
    if (found.empty()) return std::nullopt;
    return found[static_cast<std::size_t>(command.pick) % found.size()];
  }

  std::unique_ptr<Outbox> open() {
    Listeners on;
    on.add("Order", "Happened", [this](const Event& event, const Delivery& delivery) {
      return answer(event, delivery);
    });
    auto box = std::make_unique<Outbox>(
        store_, on,
        Options{.workers = 2,
                .queue = {.cold_capacity = 6, .batch = 3},
                .retry = {.policy = std::make_shared<ExponentialBackoff>(ExponentialBackoffOptions{
                              .base = 100ms, .max = 1s, .random = [] { return 0.5; }}),
                          .max_attempts = kMaxAttempts},
                .dead = {.then = on_dead_},
                .breaker = {.pause = 100ms, .max_pause = 200ms},
                .timeouts = {.stalled = 24h},  // the clock runs ahead of the threads
                .log = [](const LogRecord&) {}});
    box->start();
    return box;
  }

  Outcome answer(const Event& event, const Delivery& delivery) {
    const std::lock_guard lock(mutex_);
    const auto found = expected_.find(event.id());
    if (found == expected_.end()) {
      problems_.push_back("unknown event " + event.id());
      return Outcome::done();
    }
    Expected& known = found->second;
    const auto begin = known.script.begin();
    const int failed = static_cast<int>(
        std::count(begin, begin + static_cast<std::ptrdiff_t>(known.next), Answer::fail));
    if (delivery.attempt != failed + 1) {
      problems_.push_back("attempt " + std::to_string(delivery.attempt) + " instead of " +
                          std::to_string(failed + 1));
    }
    if (known.next == known.script.size()) {
      successes_.push_back(event.id());
      return Outcome::done();
    }
    switch (known.script[known.next++]) {
      case Answer::fail:
        return Outcome::failed("as told");
      case Answer::permanent:
        return Outcome::permanent("as told");
      case Answer::defer:
        return Outcome::retry_after(300ms);
      case Answer::unavailable:
        return Outcome::unavailable("as told");
    }
    return Outcome::done();
  }

  // Nothing is pending, but for what waits behind a dead event.
  bool finished() {
    if (box_->in_flight() > 0) return false;
    if (!store_->has_pending()) return true;
    if (on_dead_ == OnDead::skip) return false;
    std::set<std::string> blocked;
    for (const HeldAggregate& held : store_->admin().held_aggregates(100)) {
      if (held.head_status == Status::dead) blocked.insert(held.aggregate_id);
    }
    return std::all_of(order_.begin(), order_.end(), [&](const std::string& id) {
      const auto record = store_->admin().find(id);
      if (!record) return true;
      const bool pending =
          record->row.status == Status::pending || record->row.status == Status::retry;
      return !pending || blocked.contains(record->row.event.aggregate_id());
    });
  }

  const std::shared_ptr<Store> store_;
  testing::ManualClock& clock_;
  const OnDead on_dead_;

  std::mutex mutex_;
  std::map<std::string, Expected> expected_;
  std::vector<std::string> order_;
  std::set<std::string> rolled_back_;
  std::set<std::string> replayed_;
  std::vector<std::string> successes_;
  std::vector<std::string> problems_;
  std::unique_ptr<Outbox> box_;  // last: its listeners use the rest
};

void one_history(const std::shared_ptr<Store>& store, testing::ManualClock& clock) {
  const auto on_dead = static_cast<OnDead>(*rc::gen::inRange(0, 3));
  const auto commands = *rc::gen::container<std::vector<Command>>(command());
  World world{store, clock, on_dead};
  for (const Command& one : commands) world.run(one);
  world.settle();
  world.check();
}

RC_GTEST_PROP(StateMachine, HoldsOnTheMemoryStore, ()) {
  testing::ManualClock clock;
  const int shards = *rc::gen::element(1, 4);
  one_history(memory::open({.shards = shards, .clock = &clock}), clock);
}

RC_GTEST_PROP(StateMachine, HoldsOnSqlite, ()) {
  static std::atomic<int> count{0};
  const auto folder =
      std::filesystem::temp_directory_path() /
      ("outbox_property_" + std::to_string(getpid()) + "_" + std::to_string(count++));
  std::filesystem::create_directories(folder);
  struct Remove {
    std::filesystem::path path;
    ~Remove() { std::filesystem::remove_all(path); }
  } const remove{folder};
  testing::ManualClock clock;
  one_history(sqlite::open((folder / "events.db").string(),
                           {.durability = sqlite::Durability::normal, .clock = &clock}),
              clock);
}

}  // namespace
}  // namespace outbox
