#include "simulation/process.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/thread.h"
#include "outbox/error.h"

namespace outbox::simulation {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

namespace {

// The process that gets this one crashes, every time.
constexpr std::string_view kPoison = "1.0.0.0";

}  // namespace

const std::vector<std::string>& handlers() {
  static const std::vector<std::string> names{"mail", "stock"};
  return names;
}

class SimulatedBatchListener final : public BatchListener {
 public:
  explicit SimulatedBatchListener(Process& process) : process_(process) {}
  std::vector<Outcome> on_events(std::span<const Item> items) override {
    return process_.deliver_batch(items);
  }

 private:
  Process& process_;
};

void Process::say(const std::string& what) const {
  if (!environment_.trace) return;
  environment_.say("p" + std::to_string(id_) + " " + environment_.scheduler.thread_name(), what);
}

// --- Its life ---

void Process::start() {
  writing_ = environment_.plan.writers;
  environment_.scheduler.start_process(id_, [self = shared_from_this()] {
    name_this_thread("main");
    try {
      self->run();
    } catch (const std::exception& error) {
      self->environment_.violated(std::string("an exception: ") + error.what());
    }
  });
}

void Process::kill() {
  Scheduler& scheduler = environment_.scheduler;
  killed_ = true;
  environment_.fault();
  scheduler.kill(id_);
  environment_.judge->was_killed(id_);
  // The server notices, and rolls back.
  const bool gone = scheduler.wait_for([&] { return scheduler.is_gone(id_); }, scheduler.now() + 1h,
                                       "the server");
  if (gone && store_) end_connections(*store_);
}

void Process::run() {
  store_ = client_store(environment_.cluster, shared_from_this(), environment_.judge, clock_);
  Options options = environment_.plan.options;
  options.name = "p" + std::to_string(id_);
  options.log = [this](const LogRecord& record) { say("log: " + std::string(record.message)); };
  {
    Outbox box(store_, listeners(), options);
    box_ = &box;
    box.start();
    say("started");
    std::vector<Thread> writers;
    for (int writer = 0; writer < environment_.plan.writers; ++writer) {
      writers.emplace_back([this, writer] {
        name_this_thread("writer " + std::to_string(writer));
        write(writer, environment_.plan.transactions);
        --writing_;
      });
    }
    writers.clear();
    environment_.scheduler.wait_for([&] { return stopping_ || again_; }, Instant::max(),
                                    "being asked to end");
    if (again_) write(environment_.plan.writers, 2);
    wrote_again_ = true;
    environment_.scheduler.wait_for([&] { return stopping_; }, Instant::max(),
                                    "being asked to end");
    say("closes");
    box.close();
    box_ = nullptr;
    // After a fault the store may not have taken every update in time.
    if (environment_.faults == 0 && box.in_flight() != 0) {
      environment_.violated("in flight: " + std::to_string(box.in_flight()) +
                            " events after close()");
    }
  }
  say("ended");
  ended_ = true;
}

// Of a listener: the process ends here.
void Process::crash() {
  say("crashes");
  --environment_.crashes_left;
  crashes_ = true;
  while (true) sleep_for(1h);
}

// --- The network ---

void Process::request(std::string_view call) {
  Scheduler& scheduler = environment_.scheduler;
  Choices& choices = environment_.choices;
  scheduler.point();
  if (const auto delay = choices.below(4); delay > 0) {
    scheduler.sleep_until(scheduler.now() + microseconds{100} * delay * delay);
  }
  if (scheduler.now() < environment_.server_back) {
    say(std::string(call) + ": the server is unreachable");
    scheduler.sleep_until(scheduler.now() + 5ms);
    throw RetryableError("the server is unreachable");
  }
  const std::vector<RequestFault>& faults = environment_.plan.request_faults;
  if (!goes_wrong(call, 1) || faults.empty()) return;
  switch (faults[choices.below(static_cast<std::uint32_t>(faults.size()))]) {
    case RequestFault::lost:
      environment_.fault();
      say(std::string(call) + ": does not reach the server");
      throw RetryableError("the connection was lost");
    case RequestFault::slow: {
      const auto time = 200ms * (1 + choices.below(20));
      environment_.fault(time);
      say(std::string(call) + ": takes " + std::to_string(time.count()) + " ms");
      scheduler.sleep_until(scheduler.now() + time);
      return;
    }
    case RequestFault::silent:
      environment_.fault(10s);
      say(std::string(call) + ": gets no answer for 10 s");
      scheduler.sleep_until(scheduler.now() + 10s);
      throw RetryableError("no answer");
    case RequestFault::deadlock:
      environment_.fault();
      say(std::string(call) + ": meets a deadlock");
      throw Deadlocked("deadlock detected");
  }
}

// One in so many times the plan's rate.
bool Process::goes_wrong(std::string_view call, std::uint32_t times) {
  const Plan& plan = environment_.plan;
  if (environment_.calm || plan.network_faults == 0) return false;
  if (!plan.faulty_calls.empty() && std::find(plan.faulty_calls.begin(), plan.faulty_calls.end(),
                                              call) == plan.faulty_calls.end()) {
    return false;
  }
  return environment_.choices.one_in(times * plan.network_faults);
}

bool Process::loses_answer(std::string_view call) {
  Choices& choices = environment_.choices;
  const std::vector<AnswerFault>& faults = environment_.plan.answer_faults;
  if (!goes_wrong(call, 2) || faults.empty()) return false;
  if (faults[choices.below(static_cast<std::uint32_t>(faults.size()))] == AnswerFault::lost) {
    environment_.fault();
    say(std::string(call) + ": the answer is lost");
    return true;
  }
  const auto time = 200ms * (1 + choices.below(20));
  environment_.fault(time);
  say(std::string(call) + ": the answer takes " + std::to_string(time.count()) + " ms");
  environment_.scheduler.sleep_until(environment_.scheduler.now() + time);
  return false;
}

// --- Writing ---

void Process::write(int writer, int transactions) {
  Choices& choices = environment_.choices;
  for (int n = 0; n < transactions; ++n) {
    const std::string prefix =
        std::to_string(id_) + "." + std::to_string(writer) + "." + std::to_string(n) + ".";
    // What was rolled back is sometimes written once more, with the same ids.
    if (!write_transaction(prefix) && choices.one_in(2)) write_transaction(prefix);
    if (choices.one_in(3)) sleep_for(1ms * (1U << choices.below(12)));
  }
}

// False if it was rolled back.
bool Process::write_transaction(const std::string& prefix) {
  Choices& choices = environment_.choices;
  try {
    Transaction transaction = box_->begin();
    write_events(transaction, prefix);
    if (choices.one_in(8)) {
      Savepoint savepoint = transaction.savepoint();
      write_events(transaction, prefix + "s");
      const bool kept = choices.one_in(2);
      say(kept ? "releases the savepoint" : "rolls back to the savepoint");
      kept ? savepoint.release() : savepoint.rollback();
    }
    if (choices.one_in(6)) {
      say("rolls back");
      transaction.rollback();
      return false;
    }
    transaction.commit();
    say("committed");
    return true;
  } catch (const OutcomeUnknownError& error) {
    say(std::string("nobody knows whether this was committed: ") + error.what());
    return true;
  } catch (const Error& error) {
    say(std::string("transaction failed: ") + error.what());
    return false;
  }
}

void Process::write_events(Transaction& transaction, const std::string& prefix) {
  const auto events = 1 + environment_.choices.below(3);
  for (std::uint32_t i = 0; i < events; ++i) {
    Draft draft = draw_event(prefix + std::to_string(i));
    say("writes " + *draft.id + " of " + draft.aggregate_id.str());
    transaction.write(std::move(draft));
  }
}

Draft Process::draw_event(const std::string& id) {
  Choices& choices = environment_.choices;
  Draft draft{.type = "Changed", .aggregate_type = "Order"};
  const auto aggregates = static_cast<std::uint32_t>(environment_.plan.aggregates);
  draft.aggregate_id = "a" + std::to_string(choices.below(aggregates));
  draft.payload = json("{}");
  draft.id = id;
  if (!environment_.plan.delayed_events || !choices.one_in(4)) return draft;
  if (clock_.is_right() && choices.one_in(3)) {
    draft.deliver_at = clock_.now() + 700ms;
  } else {
    draft.deliver_after = 100ms * (1 + choices.below(7));
  }
  return draft;
}

// --- Receiving ---

Listeners Process::listeners() {
  Listeners listeners;
  switch (environment_.plan.receiver) {
    case Plan::Receiver::listener:
      listeners.add("Order", "Changed", [this](const Event& event, const Delivery& delivery) {
        environment_.judge->owns(id_, event, delivery.epoch, environment_.scheduler.now());
        return deliver(event, delivery);
      });
      break;
    case Plan::Receiver::batch:
      listeners.add_batch("Order", "Changed", std::make_shared<SimulatedBatchListener>(*this),
                          {.max_batch = 3});
      break;
    case Plan::Receiver::fan_out: {
      std::vector<Handler> all;
      for (const std::string& name : handlers()) {
        all.push_back(handler(name, [this, name](const Event& event, const Delivery& delivery) {
          return handle(event, delivery, name);
        }));
      }
      listeners.fan_out("Order", "Changed", std::move(all));
      break;
    }
  }
  return listeners;
}

Outcome Process::deliver(const Event& event, const Delivery& delivery) {
  say("delivers " + event.id() + " of " + event.aggregate_id() + ", attempt " +
      std::to_string(delivery.attempt) + ", epoch " + std::to_string(delivery.epoch));
  environment_.judge->begins(id_, event, delivery);
  Outcome outcome = draw_outcome(event, delivery.attempt);
  environment_.judge->ends(id_, event, outcome.kind());
  return outcome;
}

std::vector<Outcome> Process::deliver_batch(std::span<const BatchListener::Item> items) {
  std::vector<Outcome> outcomes;
  std::set<std::string> failed;
  environment_.judge->owns(id_, items.front().event, items.front().delivery.epoch,
                           environment_.scheduler.now());
  for (const BatchListener::Item& item : items) {
    const bool waits = environment_.plan.options.ordering == Ordering::total
                           ? !failed.empty()
                           : failed.contains(item.event.aggregate_id());
    outcomes.push_back(waits ? Outcome::retry_after(0ms) : deliver(item.event, item.delivery));
    if (outcomes.back().kind() != Outcome::Kind::done) failed.insert(item.event.aggregate_id());
  }
  return outcomes;
}

Outcome Process::handle(const Event& event, const Delivery& delivery, const std::string& handler) {
  say("delivers " + event.id() + " of " + event.aggregate_id() + " to " + handler + ", attempt " +
      std::to_string(delivery.attempt) + ", epoch " + std::to_string(delivery.epoch));
  environment_.judge->handler_begins(id_, event, delivery, handler);
  Outcome outcome = draw_outcome(event, delivery.attempt);
  environment_.judge->handler_ends(event, handler, outcome.kind());
  return outcome;
}

Outcome Process::draw_outcome(const Event& event, int attempt) {
  Choices& choices = environment_.choices;
  if (choices.one_in(4)) sleep_for(1ms * (1 + choices.below(20)));
  const bool poison = event.id() == kPoison;
  if (environment_.crashes_left > 0 && !environment_.calm && (poison || choices.one_in(8))) crash();
  Outcome outcome = Outcome::done();
  // What fails at the end succeeds the next time.
  if (again_ && attempt == 1 && choices.one_in(6)) {
    outcome = Outcome::failed("it failed", 10ms * choices.below(8));
  }
  const std::uint32_t rate = environment_.plan.failures;
  if (!environment_.calm && rate > 0 && choices.one_in(rate)) {
    const std::vector<Failure>& kinds = environment_.plan.failure_kinds;
    switch (kinds[choices.below(static_cast<std::uint32_t>(kinds.size()))]) {
      case Failure::failed:
        outcome = Outcome::failed("it failed");
        break;
      case Failure::deferred:
        outcome = Outcome::retry_after(30ms);
        break;
      case Failure::unavailable:
        outcome = Outcome::unavailable("it is unreachable");
        break;
      case Failure::permanent:
        outcome = Outcome::permanent("it is wrong");
        break;
      case Failure::hang:
        environment_.fault(20s);
        say("hangs in " + event.id());
        sleep_for(20s);
        break;
    }
  }
  say("has delivered " + event.id() + (outcome.kind() == Outcome::Kind::done ? "" : ": it failed"));
  return outcome;
}

}  // namespace outbox::simulation
