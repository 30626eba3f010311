// Whether a history kept the contract.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "outbox/listener.h"
#include "outbox/store.h"
#include "simulation/client_store.h"

namespace outbox::simulation {

// What to do when a promise was broken: it does not return. (An exception would be taken for one
// of the listener's.)
using OnViolation = std::function<void(const std::string& what)>;

struct JudgeOptions {
  Ordering ordering = Ordering::per_aggregate;
  int max_attempts = 10;
};

// Hears what the server did and what listeners were given, in the order in which it happened, and
// says so at once where a promise is broken:
//
// - no ghost: what is delivered was committed;
// - order: an event whose predecessor in its lane was committed before it was inserted (or is in
//   the same transaction) is delivered for the first time after that one has been delivered, or
//   is DEAD;
// - a lane is one at a time, in one process; an epoch belongs to one process;
// - no attempt is counted that did not fail; without faults each failure is counted, and nothing
//   is delivered again after a success.
//
// At the end: whatever was committed has been delivered or is DEAD, and nothing else is marked.
class Judge final : public ServerLog {
 public:
  // `say`, unless it is empty, is told what the server does.
  Judge(Store& server, JudgeOptions options, OnViolation violated,
        std::function<void(const std::string&)> say)
      : server_(server), options_(options), violated_(std::move(violated)), say_(std::move(say)) {}

  // --- ServerLog ---

  void inserted(const void* transaction, std::span<const Event> events) override;
  void committing(const void* transaction) override;
  void committed(const void* transaction) override;
  void rolled_back(const void* transaction) override;

  void read(std::string_view call, std::span<const Row> rows) override;
  void marked(std::int64_t epoch, std::span<const Mark> marks, const MarkResult& result) override;

  // --- Listeners ---

  void begins(int process, const Event& event, const Delivery& delivery);
  void ends(int process, const Event& event, Outcome::Kind outcome);

  // --- Faults ---

  // From now on events may be delivered again.
  void fault() { faults_ = true; }
  void was_killed(int process);

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
    std::uint64_t transaction = 0;
    std::uint64_t inserted_at = 0;
    std::uint64_t committed_at = 0;
    int begun = 0;
    int failures = 0;
    int successes = 0;
    bool permanent = false;
  };

  struct Open {
    std::uint64_t number = 0;
    std::vector<std::string> ids{};
  };

  std::string lane_of(const Event& event) const;
  void check_order(const std::string& id, const Told& told);
  bool is_dead(const std::string& id);

  Store& server_;
  const JudgeOptions options_;
  const OnViolation violated_;
  const std::function<void(const std::string&)> say_;
  bool faults_ = false;
  std::uint64_t now_ = 0;
  std::size_t deliveries_ = 0;

  std::map<std::string, Told> events_;
  std::map<std::string, std::vector<std::string>> lanes_;       // ids, as they were inserted
  std::map<const void*, Open> open_;                            // by transaction
  std::map<std::int64_t, int> epochs_;                          // whose
  std::map<std::pair<int, std::string>, std::string> running_;  // by process and lane
};

}  // namespace outbox::simulation
