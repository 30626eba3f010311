#include "scenario.h"

#include <chrono>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/receiver.h"
#include "outbox/outbox.h"
#include "system_calls.h"
#include "workload.h"

namespace outbox::crash_points {
namespace {

using namespace std::chrono_literals;

constexpr const char* kAggregates[] = {"a0", "a1"};

// Short, so that nobody waits for long for the lease of a dead one.
constexpr std::chrono::milliseconds kLease{1'000};
constexpr std::chrono::milliseconds kLimit{60'000};

// Writes as an application does.
class Application {
 public:
  explicit Application(const Work& work)
      : store_(chaos::open_patiently(work.database)),
        own_(chaos::connect_patiently(work.database, *store_)),
        attempts_(attempts_path(work.folder)) {}

  void one_event() {
    auto tx = writer_.begin();
    const Draft event = draft(tx.connection(), kAggregates[0]);
    record(tx.connection(), tx.write(event), event);
    commit([&] { tx.commit(); });
  }

  void in_two_transactions() {
    auto first = writer_.begin();
    const Draft event = draft(first.connection(), kAggregates[0]);
    const std::string id = first.write(event);
    first.commit();
    auto second = writer_.begin();
    record(second.connection(), id, event);
    second.commit();
  }

  void several_events() {
    auto tx = writer_.begin();
    std::vector<Draft> drafts;
    for (const char* aggregate : {kAggregates[0], kAggregates[1], kAggregates[1]}) {
      drafts.push_back(draft(tx.connection(), aggregate));
    }
    const std::vector<std::string> ids = tx.write_all(drafts);
    for (std::size_t i = 0; i < ids.size(); ++i) record(tx.connection(), ids[i], drafts[i]);
    commit([&] { tx.commit(); });
  }

  void part_of_a_transaction() {
    auto tx = writer_.begin();
    const Draft kept = draft(tx.connection(), kAggregates[1]);
    record(tx.connection(), tx.write(kept), kept);
    {
      auto savepoint = tx.savepoint();
      const Draft undone = draft(tx.connection(), kAggregates[1]);
      record(tx.connection(), tx.write(undone), undone);
      savepoint.rollback();
      ids_.pop_back();
    }
    commit([&] { tx.commit(); });
  }

  void on_own_connection() {
    own_->begin();
    const Draft event = draft(own_->connection(), kAggregates[0]);
    WriteToken token = writer_.write(own_->connection(), event);
    record(own_->connection(), token.ids().front(), event);
    commit([&] { own_->commit(); });
    token.committed();
  }

  // Their locks are free when the database has ended what a dead process began.
  void wait_for_the_dead() {
    own_->begin();
    for (const char* aggregate : kAggregates) chaos::next_numbers(own_->connection(), aggregate);
    own_->recover();
  }

 private:
  static Draft draft(Connection& connection, const std::string& aggregate) {
    const std::int64_t number = chaos::next_numbers(connection, aggregate);
    return {.type = chaos::kEventType,
            .aggregate_type = chaos::kAggregateType,
            .aggregate_id = aggregate,
            .payload = json(chaos::to_payload({.aggregate = aggregate, .number = number}))};
  }

  void record(Connection& connection, const std::string& id, const Draft& event) {
    const chaos::Movement movement = chaos::parse_payload(event.payload.data());
    chaos::record(connection,
                  {.id = id, .aggregate = movement.aggregate, .number = movement.number});
    ids_.push_back(id);
  }

  template <class Commit>
  void commit(const Commit& work) {
    note(chaos::to_line(std::exchange(ids_, {})));
    work();
    note(chaos::to_line(harness::Told::committed));
  }

  void note(const std::string& line) {
    const NotCounted not_counted;
    attempts_.append(line);
  }

  const std::shared_ptr<Store> store_;
  Writer writer_{store_};
  const std::unique_ptr<chaos::OwnConnection> own_;
  harness::Ledger attempts_;
  std::vector<std::string> ids_;  // of the transaction under way
};

}  // namespace

std::string ledger_path(const std::string& folder) { return folder + "/ledger"; }
std::string attempts_path(const std::string& folder) { return folder + "/attempts"; }

void write_some(const Work& work) {
  Application application(work);
  if (work.two_transactions) application.in_two_transactions();
  application.one_event();
  application.several_events();
  application.part_of_a_transaction();
  application.on_own_connection();
  application.one_event();
}

// The receiver is the ledger: an event has arrived when its line is written.
void deliver_all(const Work& work) {
  const std::shared_ptr<Store> sound = chaos::open_patiently(work.database);
  const std::shared_ptr<Store> store =
      work.faults ? std::make_shared<chaos::FaultyStore>(sound, *work.faults) : sound;
  harness::Ledger ledger(ledger_path(work.folder));
  Listeners on;
  on.add(chaos::kAggregateType, chaos::kEventType,
         [&](const Event& event, const Delivery& delivery) {
           const chaos::Movement movement = chaos::parse_payload(event.payload());
           ledger.append(harness::Message{.id = event.id(),
                                          .aggregate = event.aggregate_id(),
                                          .number = movement.number,
                                          .epoch = delivery.epoch,
                                          .process = work.process,
                                          .attempt = delivery.attempt}
                             .line());
         });
  Outbox box{store,
             on,
             {.workers = 1,  // one at a time, as the ledger is
              .poll_interval = 100ms,
              .lease = {.duration = kLease},
              .log = standard_error_log(LogLevel::info)}};
  box.start();
  if (!box.wait_idle(kLimit)) throw std::runtime_error("events are pending for too long");
  box.close();
}

void finish(const Work& work) {
  {
    Application application(work);
    application.wait_for_the_dead();
    application.several_events();
  }
  deliver_all(work);
}

}  // namespace outbox::crash_points
