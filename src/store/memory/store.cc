#include <string>
#include <utility>

#include "base/bounded.h"
#include "model/instance_options.h"
#include "model/shards.h"
#include "outbox/admin/admin.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "store/memory/database.h"

namespace outbox::memory {
namespace {

Options checked(Options options) {
  if (options.shards < 1) {
    throw MisuseError("the memory store needs shards >= 1, got " + std::to_string(options.shards));
  }
  if (options.concurrent_transactions && options.shards > kShards) {
    throw MisuseError("the memory store has up to " + std::to_string(kShards) +
                      " shards with concurrent transactions, got " +
                      std::to_string(options.shards));
  }
  if (options.connections < 1) {
    throw MisuseError("the memory store needs connections >= 1, got 0");
  }
  options.wait_timeout = internal::bounded(options.wait_timeout);
  return options;
}

// Thread-safe.
class MemoryAdmin final : public Admin {
 public:
  explicit MemoryAdmin(Database& database) : db_(database) {}

  std::optional<EventRecord> find(std::string_view event_id) override {
    MutexLock lock(db_.mutex);
    const StoredRow* row = db_.table.find(event_id);
    if (row == nullptr) return std::nullopt;
    return to_record(*row, db_.now());
  }

  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit) override {
    MutexLock lock(db_.mutex);
    return db_.table.list(filter, after, limit, db_.now());
  }

  std::int64_t count(const EventFilter& filter) override {
    MutexLock lock(db_.mutex);
    return db_.table.count(filter);
  }

  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit) override {
    MutexLock lock(db_.mutex);
    return db_.table.dead_groups(filter, limit);
  }

  bool replay(std::string_view event_id) override {
    {
      MutexLock lock(db_.mutex);
      if (!db_.table.replay(event_id, db_.now())) return false;
    }
    db_.watchers->notify();
    return true;
  }

  bool discard(std::string_view event_id) override {
    MutexLock lock(db_.mutex);
    return db_.table.discard(event_id);
  }

  Changed replay(const EventFilter& filter, Seq after, std::size_t limit) override {
    Changed step;
    {
      MutexLock lock(db_.mutex);
      step = db_.table.replay(filter, after, limit, db_.now());
    }
    if (step.rows > 0) db_.watchers->notify();
    return step;
  }

  Changed discard(const EventFilter& filter, Seq after, std::size_t limit) override {
    MutexLock lock(db_.mutex);
    return db_.table.discard(filter, after, limit);
  }

  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) override {
    MutexLock lock(db_.mutex);
    return db_.table.purge(what, before, after, limit, archive);
  }

  std::int64_t count_purgeable(Purgeable what, Time before) override {
    MutexLock lock(db_.mutex);
    return db_.table.count_purgeable(what, before);
  }

  std::vector<Member> members() override {
    MutexLock lock(db_.mutex);
    return db_.members.list(db_.now());
  }

  std::vector<HeldAggregate> held_aggregates(std::size_t limit) override {
    MutexLock lock(db_.mutex);
    return db_.table.held_aggregates(limit);
  }

 private:
  Database& db_;
};

// Thread-safe.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<Database> database)
      : keep_(std::move(database)), db_(*keep_) {}

  std::string description() const override {
    return "memory store with " + std::to_string(db_.options.shards) + " shards";
  }

  Capabilities capabilities() const override {
    return {.shards = db_.options.shards,
            .expiring_leases = true,
            .row_claims = true,
            .one_writer = !db_.options.concurrent_transactions,
            .total_order = true};
  }

  const Clock& clock() const override { return db_.clock; }

  std::string side_table(std::string_view /*name*/) const override {
    throw MisuseError(
        "the memory store has no tables: to keep records in SQL, use a database, such as "
        "outbox::sqlite::open(\"file.db\")");
  }

  std::unique_ptr<Connection> connect() override { return make_connection(keep_); }

  std::unique_ptr<Instance> join(InstanceOptions options) override {
    const MemberId id = [&] {
      MutexLock lock(db_.mutex);
      return db_.members.new_id();
    }();
    return make_instance(keep_, id, outbox::checked(std::move(options)));
  }

  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override {
    return Watchers::add(db_.watchers, std::move(on_commit));
  }

  bool has_pending() override {
    MutexLock lock(db_.mutex);
    return db_.table.pending() > 0;
  }

  Counts counts() override {
    MutexLock lock(db_.mutex);
    return db_.table.counts(db_.now());
  }

  Admin& admin() override { return admin_; }

  std::vector<EventRecord> archived() {
    MutexLock lock(db_.mutex);
    std::vector<EventRecord> records;
    for (const StoredRow& row : db_.table.archived()) records.push_back(to_record(row, db_.now()));
    return records;
  }

 private:
  const std::shared_ptr<Database> keep_;
  Database& db_;
  MemoryAdmin admin_{db_};
};

}  // namespace

Database::Database(const Options& given)
    : options(given),
      clock(given.clock != nullptr ? *given.clock : host_clock()),
      pool(given.connections),
      table(given.shards, given.on_done),
      members(given.shards) {}

Database::Database(const Database& other)
    : options(other.options),
      clock(other.clock),
      pool(other.options.connections),
      table(other.table),
      members(other.members) {}

std::shared_ptr<Store> make_store(std::shared_ptr<Database> database) {
  return std::make_shared<MemoryStore>(std::move(database));
}

std::shared_ptr<Store> open(Options options) {
  return make_store(std::make_shared<Database>(checked(std::move(options))));
}

std::vector<EventRecord> archived(Store& store) {
  auto* const ours = dynamic_cast<MemoryStore*>(&store);
  if (ours == nullptr) {
    throw MisuseError("archived() needs a memory store, not " + store.description());
  }
  return ours->archived();
}

}  // namespace outbox::memory
