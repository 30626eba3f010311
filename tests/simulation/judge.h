// Whether a history kept the contract.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "outbox/admin/admin.h"
#include "outbox/listener.h"
#include "outbox/spi/dispatcher.h"
#include "outbox/spi/store.h"
#include "simulation/client_store.h"
#include "simulation/cluster.h"
#include "simulation/scheduler.h"

namespace outbox::simulation {

// What to do when a promise was broken: it does not return. (An exception would be taken for one
// of the listener's.)
using OnViolation = std::function<void(const std::string& what)>;

struct JudgeOptions {
  Ordering ordering = Ordering::per_aggregate;
  OnDead on_dead = OnDead::skip;
  int max_attempts = 10;
  std::chrono::milliseconds lease{};
  bool row_claims = false;
  bool removes_done = false;            // the server, instead of keeping them
  std::vector<std::string> handlers{};  // of a fan-out
};

// Hears what the server did and what listeners were given, in the order in which it happened, and
// says so at once where a promise is broken:
//
// - no ghost: what is delivered was committed;
// - order: an event whose predecessor in its lane was committed before it was inserted (or is in
//   the same transaction) is delivered for the first time after that one has been delivered, or is
//   DEAD (with `block` and `park`: or was discarded);
// - a lane is one at a time, in one process; an epoch belongs to one process, and nothing is
//   delivered after the end of a lease, nor of a shard that was released within its epoch;
// - no attempt is counted that did not fail; without faults each failure is counted;
// - nothing is delivered again after a success, in a fan-out to none of the handlers, unless it was
//   in flight when something went wrong;
// - what is DONE stays so, and what is DEAD until an operator replays it; what was discarded stays
//   away; and nothing is DEAD that has not failed as often as it may, and has not seen processes
//   die since it answered;
// - nothing is delivered before its time.
//
// At the end: whatever was committed, and not lost by the server, has been delivered, is DEAD or
// was discarded, and nothing else is updated.
class Judge final : public ServerLog {
 public:
  // `say`, unless it is empty, is told what the server does.
  Judge(std::shared_ptr<Cluster> server, JudgeOptions options, OnViolation violated,
        std::function<void(const std::string&)> say)
      : server_(std::move(server)),
        options_(std::move(options)),
        violated_(std::move(violated)),
        say_(std::move(say)) {}

  // --- ServerLog ---

  std::uint64_t now() const override { return now_; }
  void inserted(const void* transaction, std::span<const Event> events,
                std::uint64_t begun) override;
  void committing(const void* transaction, int history) override;
  void committed(const void* transaction, int history) override;
  void rolled_back(const void* transaction) override;
  void savepoint(const void* transaction, const std::string& name) override;
  void rolled_back_to(const void* transaction, const std::string& name) override;

  void renewed(std::int64_t epoch, memory::MemberId member) override { members_[epoch] = member; }
  void read(std::string_view call, std::span<const Row> rows) override;
  void updated(int history, std::int64_t epoch, std::span<const StatusUpdate> updates,
               const UpdateResult& result) override;

  // --- Listeners ---

  void begins(int process, const Event& event, const Delivery& delivery);
  void ends(int process, const Event& event, Outcome::Kind outcome);

  // Of a fan-out. All of them together are one delivery, of which nothing but the first call and
  // the last success is told apart.
  void handler_begins(int process, const Event& event, const Delivery& delivery,
                      const std::string& handler);
  void handler_ends(const Event& event, const std::string& handler, Outcome::Kind outcome);

  // --- Leases ---

  // A process has renewed its lease; and begins to deliver. (Of a batch this is about the first:
  // the lease may end in the middle, and the shard be released while the call hangs.)
  void renewed(int process, Instant now) { renewals_[process] = now; }
  void owns(int process, const Event& event, std::int64_t epoch, Instant now);
  void was_frozen(int process) { renewals_.erase(process); }

  // --- Operators ---

  void replayed(const std::string& id);
  void discarded(const std::string& id);

  // Somebody has made it DONE by an UPDATE of their own; an instance that has it in flight may
  // still deliver it.
  void finished_by_hand(const std::string& id);

  // --- Faults ---

  // From then until then something goes wrong. What is in flight meanwhile, or within a lease after
  // that, may be delivered again; nothing else.
  void fault(Instant from, Instant until);
  void was_killed(int process);

  // What the primary does from now on will be lost; and is.
  void replication_stops();
  void promoted();

  // There are no faults any more, and their consequences are over: what is written from now on is
  // delivered as if there had been none.
  void calm() { calm_ = true; }

  // --- The end ---

  void conclude();

  std::size_t deliveries() const { return deliveries_; }
  std::size_t events() const { return events_.size(); }

 private:
  enum class State : std::uint8_t { inserted, committing, committed, rolled_back };

  struct Told {
    State state = State::inserted;
    std::string lane{};
    bool delayed = false;  // it waits for nobody, and nobody for it
    bool calm = false;     // no fault can excuse anything
    std::uint64_t transaction = 0;
    std::uint64_t inserted_at = 0;
    std::uint64_t committed_at = 0;
    int begun = 0;
    int failures = 0;  // since it was replayed
    int all_failures = 0;
    int successes = 0;
    bool permanent = false;
    bool replayed = false;
    bool discarded = false;
    bool was_discarded = false;        // perhaps on a server that has lost it
    bool lost = false;                 // by the server
    std::set<std::string> handlers{};  // that have it
    bool edited = false;               // by hand
    bool answered = false;             // and the server does not know of it yet
    int deaths_before = 0;             // of processes, when it had answered last

    // Not to be delivered before.
    Instant not_before{};  // if it has a delay
    Time available_at{};   // by the server's clock

    // In flight: since it was first given to a listener, until the server knew that it is DONE.
    Instant begun_at{};
    std::optional<Instant> done_at{};

    std::optional<StatusUpdate::Kind> final{};
    std::uint64_t final_at = 0;
  };

  struct Open {
    std::uint64_t number = 0;
    std::vector<std::string> ids{};
    std::vector<std::pair<std::string, std::size_t>> savepoints{};
  };

  std::string lane_of(const Event& event) const;
  Told* begin(int process, const Event& event, const Delivery& delivery);
  void check_order(const std::string& id, const Told& told);
  void check_owner(const std::string& id, std::int64_t epoch);
  void check_final(const StatusUpdate& update, Told& told);
  void check_dead(const StatusUpdate& update, const Told& told);
  void check_time(const Event& event, const Told& told);
  bool is_dead(const std::string& id);
  bool excused(const Told& told) const { return faults_ && !told.calm; }
  bool was_in_flight_at_a_fault(const Told& told) const;
  static Instant now_in_simulation();

  const std::shared_ptr<Cluster> server_;
  const JudgeOptions options_;
  const OnViolation violated_;
  const std::function<void(const std::string&)> say_;
  bool faults_ = false;
  std::vector<std::pair<Instant, Instant>> fault_times_;
  bool calm_ = false;
  bool failed_over_ = false;
  int deaths_ = 0;  // of processes
  std::uint64_t replicated_until_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t now_ = 0;
  std::size_t deliveries_ = 0;

  std::map<std::string, Told> events_;
  std::map<std::string, std::vector<std::string>> lanes_;       // ids, as they were inserted
  std::map<const void*, Open> open_;                            // by transaction
  std::map<int, Instant> renewals_;                             // by process
  std::map<std::int64_t, int> epochs_;                          // whose
  std::map<std::int64_t, memory::MemberId> members_;            // by epoch
  std::map<std::pair<int, std::string>, std::string> running_;  // by process and lane
};

}  // namespace outbox::simulation
