#include "faulty_store.h"

#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

namespace outbox::chaos {
namespace {

// So that a test which forgets to thaw fails instead of hanging.
constexpr std::chrono::seconds kLongestFreeze{60};

class FaultyConnection final : public Connection {
 public:
  FaultyConnection(std::unique_ptr<Connection> inner, std::shared_ptr<FaultState> state)
      : inner_(std::move(inner)), state_(std::move(state)) {}

  void commit() override {
    if (state_->faults().hook_on_rollback && state_->every_third()) return inner_->rollback();
    inner_->commit();
  }

  void begin() override { inner_->begin(); }
  void rollback() override { inner_->rollback(); }
  bool in_transaction() const override { return inner_->in_transaction(); }
  void savepoint(const std::string& name) override { inner_->savepoint(name); }
  void release(const std::string& name) override { inner_->release(name); }
  void rollback_to(const std::string& name) override { inner_->rollback_to(name); }
  std::int64_t execute(std::string_view sql, std::span<const Parameter> values) override {
    return inner_->execute(sql, values);
  }
  std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) override {
    return inner_->query(sql, values);
  }
  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    return inner_->insert(events, options);
  }

 private:
  const std::unique_ptr<Connection> inner_;
  const std::shared_ptr<FaultState> state_;
};

class FaultyInstance final : public WholeInstance {
 public:
  FaultyInstance(std::shared_ptr<Instance> inner, std::string name,
                 std::shared_ptr<FaultState> state)
      : inner_(std::move(inner)), name_(std::move(name)), state_(std::move(state)) {}

  // --- Ownership ---

  Lease renew() override {
    state_->wait_while_frozen(name_);
    Lease lease = inner_->renew();
    if (lease.epoch != 0) state_->set_owner(inner_, lease.epoch);
    epoch_ = lease.epoch;
    return lease;
  }
  std::int64_t epoch() const override { return inner_->epoch(); }
  std::optional<std::chrono::milliseconds> lease_duration() const override {
    return inner_->lease_duration();
  }
  void release(int shard) override { inner_->release(shard); }
  void leave() override { inner_->leave(); }

  // --- Reading ---

  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override {
    if (state_->faults().reread) inner_->rewind(0);
    Rows result = inner_->ready(shards, in_flight, limit);
    update_before_delivery(result.rows);
    return result;
  }
  void rewind(Seq seq) override { inner_->rewind(seq); }
  DueRows due(std::span<const int> shards, const ReadLimit& limit) override {
    return inner_->due(shards, limit);
  }
  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) override {
    return inner_->held(lanes, limit);
  }
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) override {
    return inner_->held_lanes(shard, after, limit);
  }
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override {
    return inner_->unblocked(shards, limit);
  }
  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) override {
    Rows result = inner_->claim(skip_recent, limit);
    update_before_delivery(result.rows);
    return result;
  }
  void unclaim(std::span<const RowRef> rows) override { inner_->unclaim(rows); }

  // --- Updating ---

  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) override {
    const std::lock_guard lock(updating_);
    if (state_->faults().drop_fence) return state_->update_as_owner(updates);
    if (state_->faults().lose_updates) return update_without_first(epoch, updates);
    return inner_->apply(epoch, updates);
  }
  FlushResult flush(std::int64_t epoch, bool at_once) override {
    return inner_->flush(epoch, at_once);
  }
  bool takes_unread() const override { return inner_->takes_unread(); }

  const std::string& owner() const override { return inner_->owner(); }

 private:
  void update_before_delivery(std::span<const Row> rows) {
    if (!state_->faults().update_before_delivery || rows.empty()) return;
    std::vector<StatusUpdate> updates;
    updates.reserve(rows.size());
    for (const Row& row : rows) updates.push_back({.row = row.ref, .event_id = row.event.id()});
    const std::lock_guard lock(updating_);
    inner_->apply(epoch_, updates);
  }

  UpdateResult update_without_first(std::int64_t epoch, std::span<const StatusUpdate> updates) {
    std::vector<StatusUpdate> kept;
    std::vector<std::size_t> index;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      if (updates[i].kind == StatusUpdate::Kind::done && state_->first_time(updates[i].event_id))
        continue;
      kept.push_back(updates[i]);
      index.push_back(i);
    }
    if (kept.empty()) return {};
    UpdateResult result = inner_->apply(epoch, kept);
    for (std::size_t& stale : result.stale) stale = index[stale];
    return result;
  }

  // Constant after construction.
  const std::shared_ptr<Instance> inner_;
  const std::string name_;
  const std::shared_ptr<FaultState> state_;

  std::mutex updating_;  // reads update as well here
  std::atomic<std::int64_t> epoch_{0};
};

using Switch = std::pair<std::string_view, bool Faults::*>;
constexpr std::array<Switch, 5> kSwitches{
    {{"drop_fence", &Faults::drop_fence},
     {"update_before_delivery", &Faults::update_before_delivery},
     {"lose_updates", &Faults::lose_updates},
     {"reread", &Faults::reread},
     {"hook_on_rollback", &Faults::hook_on_rollback}}};

}  // namespace

Faults fault_named(std::string_view name) {
  std::string known;
  for (const auto& [switch_name, member] : kSwitches) {
    if (switch_name == name) {
      Faults faults;
      faults.*member = true;
      return faults;
    }
    known.append(known.empty() ? "" : ", ").append(switch_name);
  }
  throw std::invalid_argument("a fault must be one of " + known + "; got '" + std::string(name) +
                              "'");
}

// --- FaultState ---

bool FaultState::first_time(const std::string& event_id) {
  const std::lock_guard lock(mutex_);
  return seen_.insert(event_id).second;
}

bool FaultState::every_third() {
  const std::lock_guard lock(mutex_);
  return ++commits_ % 3 == 0;
}

void FaultState::freeze(const std::string& name) {
  const std::lock_guard lock(mutex_);
  frozen_ = name;
}

void FaultState::thaw() {
  const std::lock_guard lock(mutex_);
  frozen_.clear();
  thawed_.notify_all();
}

void FaultState::wait_while_frozen(const std::string& name) {
  std::unique_lock lock(mutex_);
  thawed_.wait_for(lock, kLongestFreeze, [&] { return frozen_.empty() || frozen_ != name; });
}

void FaultState::set_owner(std::shared_ptr<Instance> instance, std::int64_t epoch) {
  const std::lock_guard lock(mutex_);
  owner_ = std::move(instance);
  epoch_ = epoch;
}

// Under the mutex: an instance takes updates from one thread at a time.
UpdateResult FaultState::update_as_owner(std::span<const StatusUpdate> updates) {
  const std::lock_guard lock(mutex_);
  return owner_->apply(epoch_, updates);
}

// --- FaultyStore ---

FaultyStore::FaultyStore(std::shared_ptr<Store> inner, Faults faults)
    : inner_(std::move(inner)), state_(std::make_shared<FaultState>(faults)) {}

std::unique_ptr<Connection> FaultyStore::connect() {
  return std::make_unique<FaultyConnection>(inner_->connect(), state_);
}

std::unique_ptr<Instance> FaultyStore::join(InstanceOptions options) {
  std::string name = options.name;
  return std::make_unique<FaultyInstance>(inner_->join(std::move(options)), std::move(name),
                                          state_);
}

}  // namespace outbox::chaos
