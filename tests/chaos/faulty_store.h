// A store that breaks its promises on purpose, to see whether that is noticed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "outbox/spi/store.h"

namespace outbox::chaos {

// Each is a bug that the contract in store.h forbids.
struct Faults {
  // A late owner's updates are applied as if they were the present owner's.
  bool drop_fence = false;

  // An event becomes DONE when it is read, before anybody has it.
  bool update_before_delivery = false;

  // The first DONE update of each event is acknowledged and forgotten.
  bool lose_updates = false;

  // Every read starts again at the lowest row. Allowed by the contract: the
  // engine knows what it has, unless its tracker forgets.
  bool reread = false;

  // Every third transaction is rolled back while its commit says that it
  // happened: what runs after a commit runs after a rollback.
  bool hook_on_rollback = false;
};

// Throws std::invalid_argument for an unknown name.
Faults fault_named(std::string_view name);

// What the connections and instances of a FaultyStore share. Thread-safe.
class FaultState {
 public:
  explicit FaultState(Faults faults) : faults_(faults) {}

  const Faults& faults() const { return faults_; }

  // True once for each id.
  bool first_time(const std::string& event_id);
  bool every_third();

  // Keeps ownership calls of that instance waiting, as if its process were
  // stopped; at most for so long as the host's clock allows (see .cc).
  void freeze(const std::string& name);
  void thaw();
  void wait_while_frozen(const std::string& name);

  // Who renewed last with success, and under which epoch.
  void set_owner(std::shared_ptr<Instance> instance, std::int64_t epoch);

  // As the update of the present owner, whatever its sender.
  UpdateResult update_as_owner(std::span<const StatusUpdate> updates);

 private:
  // Constant after construction.
  const Faults faults_;

  std::mutex mutex_;
  std::condition_variable thawed_;
  std::string frozen_;
  std::unordered_set<std::string> seen_;
  unsigned commits_ = 0;
  std::shared_ptr<Instance> owner_;
  std::int64_t epoch_ = 0;
};

// Wraps any store. Thread-safe as that one is.
class FaultyStore final : public Store {
 public:
  FaultyStore(std::shared_ptr<Store> inner, Faults faults);

  FaultState& state() { return *state_; }

  std::string description() const override { return inner_->description(); }
  Capabilities capabilities() const override { return inner_->capabilities(); }
  std::string side_table(std::string_view name) const override { return inner_->side_table(name); }
  const Clock& clock() const override { return inner_->clock(); }
  std::unique_ptr<Connection> connect() override;
  std::unique_ptr<Instance> join(InstanceOptions options) override;
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override {
    return inner_->watch(std::move(on_commit));
  }
  bool has_pending() override { return inner_->has_pending(); }
  Counts counts() override { return inner_->counts(); }
  Admin& admin() override { return inner_->admin(); }

 private:
  // Constant after construction.
  const std::shared_ptr<Store> inner_;
  const std::shared_ptr<FaultState> state_;
};

}  // namespace outbox::chaos
