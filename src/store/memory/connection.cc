#include <string>
#include <utility>
#include <vector>

#include "outbox/error.h"
#include "store/memory/database.h"

namespace outbox::memory {
namespace {

std::string milliseconds(std::chrono::milliseconds time) {
  return std::to_string(time.count()) + " ms";
}

// What a transaction inserts is kept here and goes into the table all at once at commit(); unless
// they are concurrent, it has the turn from begin() to its end. Used by one thread at a time.
class MemoryConnection final : public Connection {
 public:
  // Takes over a place in the pool.
  explicit MemoryConnection(std::shared_ptr<Database> database)
      : keep_(std::move(database)), db_(*keep_) {}

  ~MemoryConnection() override {
    if (in_transaction_) end();
    db_.pool.leave();
  }

  MemoryConnection(const MemoryConnection&) = delete;
  MemoryConnection& operator=(const MemoryConnection&) = delete;

  void begin() override {
    if (in_transaction_) {
      throw MisuseError("begin() in a transaction: end the open one first, or use a savepoint");
    }
    if (!db_.options.concurrent_transactions && !db_.turn.enter(db_.options.wait_timeout)) {
      throw RetryableError("the memory store runs one transaction at a time, and another one has" +
                           std::string(" not ended within wait_timeout = ") +
                           milliseconds(db_.options.wait_timeout));
    }
    in_transaction_ = true;
  }

  void commit() override {
    require_transaction("commit()");
    const bool changed = !inserted_.empty();
    {
      MutexLock lock(db_.mutex);
      for (StoredRow& row : inserted_) {
        db_.writers.ids.erase(row.event.id());
        db_.table.insert(std::move(row));
      }
      inserted_.clear();
    }
    end();
    if (changed) db_.watchers->notify();
  }

  void rollback() override {
    require_transaction("rollback()");
    end();
  }

  bool in_transaction() const override { return in_transaction_; }

  void savepoint(const std::string& name) override {
    require_transaction("savepoint()");
    savepoints_.push_back({name, inserted_.size()});
  }

  void release(const std::string& name) override {
    savepoints_.resize(position_of(name, "release()"));
  }

  void rollback_to(const std::string& name) override {
    const std::size_t position = position_of(name, "rollback_to()");
    MutexLock lock(db_.mutex);
    undo_after(savepoints_[position].rows);
    savepoints_.resize(position + 1);
  }

  std::int64_t execute(std::string_view sql, std::span<const Parameter> /*values*/) override {
    refuse_sql(sql);
  }

  std::vector<ResultRow> query(std::string_view sql,
                               std::span<const Parameter> /*values*/) override {
    refuse_sql(sql);
  }

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    require_transaction("insert()");
    std::vector<RowRef> refs;
    refs.reserve(events.size());
    inserted_.reserve(inserted_.size() + events.size());
    const std::size_t before = inserted_.size();
    MutexLock lock(db_.mutex);
    const Time now = db_.now();
    if (writer_ == 0) db_.writers.open.insert(writer_ = ++db_.writers.last);
    for (const Event& event : events) {
      if (db_.table.contains(event.id()) || db_.writers.ids.contains(event.id())) {
        undo_after(before);
        throw MisuseError("an event with the id \"" + event.id() + "\" is in the table already");
      }
      inserted_.push_back(db_.table.make_row(event, options.owner, now));
      const StoredRow& row = inserted_.back();
      db_.writers.ids.insert(row.event.id());
      refs.push_back({.seq = row.seq, .shard = row.shard, .hold = *row.hold});
    }
    return refs;
  }

 private:
  struct Savepoint {
    std::string name;
    std::size_t rows;  // inserted before it
  };

  void require_transaction(const char* call) const {
    if (!in_transaction_) {
      throw MisuseError(std::string(call) + " outside a transaction: call begin() first");
    }
  }

  void end() {
    {
      MutexLock lock(db_.mutex);
      undo_after(0);
      db_.writers.open.erase(std::exchange(writer_, 0));
    }
    savepoints_.clear();
    in_transaction_ = false;
    if (!db_.options.concurrent_transactions) db_.turn.leave();
  }

  // As in SQL, the latest one of that name.
  std::size_t position_of(const std::string& name, const char* call) const {
    require_transaction(call);
    for (std::size_t i = savepoints_.size(); i-- > 0;) {
      if (savepoints_[i].name == name) return i;
    }
    throw MisuseError(std::string(call) + ": there is no savepoint \"" + name + "\"");
  }

  void undo_after(std::size_t rows) OUTBOX_REQUIRES(db_.mutex) {
    for (; inserted_.size() > rows; inserted_.pop_back()) {
      db_.writers.ids.erase(inserted_.back().event.id());
    }
  }

  [[noreturn]] static void refuse_sql(std::string_view sql) {
    throw MisuseError("the memory store has no SQL: " + std::string(sql));
  }

  const std::shared_ptr<Database> keep_;
  Database& db_;
  bool in_transaction_ = false;
  std::int64_t writer_ = 0;  // among db_.writers, once it has inserted
  std::vector<StoredRow> inserted_;
  std::vector<Savepoint> savepoints_;
};

}  // namespace

std::unique_ptr<Connection> make_connection(std::shared_ptr<Database> database) {
  const Options& options = database->options;
  if (!database->pool.enter(options.wait_timeout)) {
    throw RetryableError(
        "all connections are in use (connections = " + std::to_string(options.connections) +
        "), and none came free within wait_timeout = " + milliseconds(options.wait_timeout));
  }
  return std::make_unique<MemoryConnection>(std::move(database));
}

}  // namespace outbox::memory
