#include "support/faulty_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "outbox/admin/admin.h"
#include "outbox/error.h"

namespace outbox::testing {
namespace {

// Runs a call between the two hooks.
template <class Call>
auto between(Faults& faults, std::string_view name, Call call) {
  faults.begin(name);
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    faults.end(name);
  } else {
    auto result = call();
    faults.end(name);
    return result;
  }
}

// The same for a read. What the engine has does not count: a store may leave it out.
template <class Call>
auto reading(Faults& faults, std::string_view name, const ReadLimit& limit, Call call) {
  return between(faults, name, [&] {
    auto result = call();
    std::vector<Row> rows = result.rows;
    std::erase_if(rows, [&](const Row& row) { return limit.taken && limit.taken(row.event.id()); });
    faults.read(rows);
    return result;
  });
}

class FaultyConnection final : public Connection {
 public:
  FaultyConnection(std::unique_ptr<Connection> to, std::shared_ptr<Faults> faults)
      : to_(std::move(to)), faults_(std::move(faults)) {}

  void begin() override {
    between(*faults_, "begin", [&] { to_->begin(); });
  }
  void commit() override {
    between(*faults_, "commit", [&] { to_->commit(); });
  }
  void rollback() override {
    between(*faults_, "rollback", [&] { to_->rollback(); });
  }
  bool in_transaction() const override { return to_->in_transaction(); }
  void savepoint(const std::string& name) override { to_->savepoint(name); }
  void release(const std::string& name) override { to_->release(name); }
  void rollback_to(const std::string& name) override { to_->rollback_to(name); }
  std::int64_t execute(std::string_view sql, std::span<const Parameter> values) override {
    return between(*faults_, "execute", [&] { return to_->execute(sql, values); });
  }
  std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) override {
    return between(*faults_, "query", [&] { return to_->query(sql, values); });
  }
  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    return between(*faults_, "insert", [&] { return to_->insert(events, options); });
  }

 private:
  const std::unique_ptr<Connection> to_;
  const std::shared_ptr<Faults> faults_;
};

class FaultyInstance final : public WholeInstance {
 public:
  FaultyInstance(std::unique_ptr<Instance> to, std::shared_ptr<Faults> faults)
      : to_(std::move(to)), faults_(std::move(faults)) {}

  Lease renew() override {
    return between(*faults_, "renew", [&] { return to_->renew(); });
  }
  std::int64_t epoch() const override { return to_->epoch(); }
  std::optional<std::chrono::milliseconds> lease_duration() const override {
    return to_->lease_duration();
  }
  void release(int shard) override {
    between(*faults_, "release", [&] { to_->release(shard); });
  }
  void leave() override {
    between(*faults_, "leave", [&] { to_->leave(); });
  }
  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override {
    return reading(*faults_, "ready", limit, [&] { return to_->ready(shards, in_flight, limit); });
  }
  void rewind(Seq seq) override { to_->rewind(seq); }
  DueRows due(std::span<const int> shards, const ReadLimit& limit) override {
    return reading(*faults_, "due", limit, [&] { return to_->due(shards, limit); });
  }
  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) override {
    return reading(*faults_, "held", limit, [&] { return to_->held(lanes, limit); });
  }
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) override {
    return between(*faults_, "held_lanes", [&] { return to_->held_lanes(shard, after, limit); });
  }
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override {
    return between(*faults_, "unblocked", [&] { return to_->unblocked(shards, limit); });
  }
  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) override {
    return reading(*faults_, "claim", limit, [&] { return to_->claim(skip_recent, limit); });
  }
  void unclaim(std::span<const RowRef> rows) override {
    between(*faults_, "unclaim", [&] { to_->unclaim(rows); });
  }
  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) override {
    return between(*faults_, "update", [&] {
      const std::optional<UpdateResult> answer = faults_->updating(updates);
      return answer ? *answer : to_->apply(epoch, updates);
    });
  }
  FlushResult flush(std::int64_t epoch, bool at_once) override {
    return between(*faults_, "flush", [&] { return to_->flush(epoch, at_once); });
  }
  bool takes_unread() const override { return to_->takes_unread(); }
  const std::string& owner() const override { return to_->owner(); }

 private:
  const std::unique_ptr<Instance> to_;
  const std::shared_ptr<Faults> faults_;
};

class FaultyAdmin final : public Admin {
 public:
  FaultyAdmin(Admin& to, Faults& faults) : to_(to), faults_(faults) {}

  std::optional<EventRecord> find(std::string_view event_id) override { return to_.find(event_id); }
  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit) override {
    return between(faults_, "list", [&] { return to_.list(filter, after, limit); });
  }
  std::int64_t count(const EventFilter& filter) override {
    return between(faults_, "count", [&] { return to_.count(filter); });
  }
  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit) override {
    return between(faults_, "dead_groups", [&] { return to_.dead_groups(filter, limit); });
  }
  bool replay(std::string_view event_id) override {
    return between(faults_, "replay", [&] { return to_.replay(event_id); });
  }
  bool discard(std::string_view event_id) override {
    return between(faults_, "discard", [&] { return to_.discard(event_id); });
  }
  Changed replay(const EventFilter& filter, Seq after, std::size_t limit) override {
    return between(faults_, "replay", [&] { return to_.replay(filter, after, limit); });
  }
  Changed discard(const EventFilter& filter, Seq after, std::size_t limit) override {
    return between(faults_, "discard", [&] { return to_.discard(filter, after, limit); });
  }
  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) override {
    return between(faults_, "purge",
                   [&] { return to_.purge(what, before, after, limit, archive); });
  }
  std::int64_t count_purgeable(Purgeable what, Time before) override {
    return between(faults_, "count_purgeable", [&] { return to_.count_purgeable(what, before); });
  }
  std::vector<Member> members() override {
    return between(faults_, "members", [&] { return to_.members(); });
  }
  std::vector<HeldAggregate> held_aggregates(std::size_t limit) override {
    return to_.held_aggregates(limit);
  }
  std::vector<Subscription> subscriptions() override { return to_.subscriptions(); }
  bool create_subscription(std::string_view name, std::optional<Begin> begin) override {
    return to_.create_subscription(name, begin);
  }
  void drop_subscription(std::string_view name) override { to_.drop_subscription(name); }

 private:
  Admin& to_;
  Faults& faults_;
};

class FaultyStore final : public Store {
 public:
  FaultyStore(std::shared_ptr<Store> to, std::shared_ptr<Faults> faults)
      : to_(std::move(to)), faults_(std::move(faults)) {}

  std::string description() const override { return to_->description(); }
  Capabilities capabilities() const override {
    return faults_->claimed().value_or(to_->capabilities());
  }
  std::string side_table(std::string_view name) const override { return to_->side_table(name); }
  const Clock& clock() const override { return to_->clock(); }
  std::unique_ptr<Connection> connect() override {
    return between(*faults_, "connect", [&]() -> std::unique_ptr<Connection> {
      return std::make_unique<FaultyConnection>(to_->connect(), faults_);
    });
  }
  std::unique_ptr<Instance> join(InstanceOptions options) override {
    return std::make_unique<FaultyInstance>(to_->join(std::move(options)), faults_);
  }
  std::shared_ptr<Store> subscription(std::string_view name) override {
    return std::make_shared<FaultyStore>(to_->subscription(name), faults_);
  }
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override {
    return to_->watch(std::move(on_commit));
  }
  bool has_pending() override { return to_->has_pending(); }
  Counts counts() override { return to_->counts(); }
  Admin& admin() override { return admin_; }

 private:
  const std::shared_ptr<Store> to_;
  const std::shared_ptr<Faults> faults_;
  FaultyAdmin admin_{to_->admin(), *faults_};
};

}  // namespace

void Faults::before(Hook hook) {
  const std::lock_guard lock(mutex_);
  before_ = std::move(hook);
}

void Faults::after(Hook hook) {
  const std::lock_guard lock(mutex_);
  after_ = std::move(hook);
}

void Faults::clear() {
  const std::lock_guard lock(mutex_);
  before_ = nullptr;
  after_ = nullptr;
  on_update_ = nullptr;
}

void Faults::claim(const Capabilities& capabilities) {
  const std::lock_guard lock(mutex_);
  claimed_ = capabilities;
}

std::optional<Capabilities> Faults::claimed() const {
  const std::lock_guard lock(mutex_);
  return claimed_;
}

std::size_t Faults::calls(std::string_view call) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, count] : calls_) {
    if (name == call) return count;
  }
  return 0;
}

void Faults::read(const std::vector<Row>& rows) {
  std::size_t bytes = 0;
  for (const Row& row : rows) bytes += row.event.payload().size();
  const std::lock_guard lock(mutex_);
  bytes_read_ += bytes;
  largest_read_ = std::max(largest_read_, bytes);
}

std::size_t Faults::bytes_read() const {
  const std::lock_guard lock(mutex_);
  return bytes_read_;
}

std::size_t Faults::largest_read() const {
  const std::lock_guard lock(mutex_);
  return largest_read_;
}

void Faults::begin(std::string_view call) {
  Hook hook;
  {
    const std::lock_guard lock(mutex_);
    hook = before_;
    const auto found = std::find_if(calls_.begin(), calls_.end(),
                                    [&](const auto& entry) { return entry.first == call; });
    if (found != calls_.end()) {
      ++found->second;
    } else {
      calls_.emplace_back(call, 1);
    }
  }
  if (hook) hook(call);
}

void Faults::on_update(UpdateHook hook) {
  const std::lock_guard lock(mutex_);
  on_update_ = std::move(hook);
}

std::optional<UpdateResult> Faults::updating(std::span<const StatusUpdate> updates) {
  UpdateHook hook;
  {
    const std::lock_guard lock(mutex_);
    hook = on_update_;
  }
  return hook ? hook(updates) : std::nullopt;
}

void Faults::end(std::string_view call) {
  Hook hook;
  {
    const std::lock_guard lock(mutex_);
    hook = after_;
  }
  if (hook) hook(call);
}

Faults::Hook failing(std::vector<std::string_view> calls) {
  return [calls = std::move(calls)](std::string_view call) {
    if (std::find(calls.begin(), calls.end(), call) == calls.end()) return;
    throw RetryableError("the database is unreachable: " + std::string(call));
  };
}

std::shared_ptr<Store> faulty(std::shared_ptr<Store> store, std::shared_ptr<Faults> faults) {
  return std::make_shared<FaultyStore>(std::move(store), std::move(faults));
}

}  // namespace outbox::testing
