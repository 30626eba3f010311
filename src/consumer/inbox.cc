#include "outbox/consumer/inbox.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/utf8.h"
#include "consumer/dialect.h"
#include "consumer/old_rows.h"
#include "consumer/replay.h"
#include "model/group_listener.h"
#include "outbox/error.h"

namespace outbox {
namespace {

using internal::OldRows;
using internal::render_sql;

constexpr const char* kRecord =
    "{insert} {inbox} (consumer, event_id, consumed_at) VALUES (?, ?, {now}) {unless there}";
constexpr const char* kForget = "DELETE FROM {inbox} WHERE consumer = ? AND event_id = ?";

void check_group(std::string_view group) {
  check_name("consumer group", group, kMaxConsumerLength);
}

std::vector<Parameter> key(std::string_view group, std::string_view event_id) {
  // Before the statement: MySQL would cut them to fit, and take two events for one.
  check_group(group);
  check_name("event id", event_id, kMaxConsumedIdLength);
  return {group, event_id};
}

internal::OldRowsOptions purge_options(InboxOptions options) {
  return {.what = "inbox",
          .table = "{inbox}",
          .key = "consumer, event_id",
          .since = "consumed_at",
          .retention = options.retention,
          .interval = options.purge_interval,
          .batch = options.purge_batch,
          .log = options.log ? std::move(options.log) : standard_error_log()};
}

// The listener of Inbox::listener().
class Consumer final : public internal::GroupListener {
 public:
  using Effect = std::function<void(Transaction& tx, const Event& event)>;

  Consumer(Inbox& inbox, Writer& writer, std::string group, Effect effect)
      : inbox_(inbox), writer_(writer), group_(std::move(group)), effect_(std::move(effect)) {}

  const std::string& group() const noexcept override { return group_; }
  // All inboxes on a store have the same table.
  const void* records() const noexcept override { return &writer_.store(); }

  Outcome on_event(const Event& event, const Delivery& /*delivery*/) override {
    try {
      consume(event);
    } catch (const RetryAfterError&) {
      throw;
    } catch (const UnavailableError&) {
      throw;
    } catch (const RetryableError& error) {
      check_database(error);
      throw;
    } catch (const OutcomeUnknownError& error) {
      // The next delivery sees by the record what happened.
      check_database(error);
      throw;
    }
    return Outcome::done();
  }

 private:
  void consume(const Event& event) {
    Transaction tx = begin();
    bool begun = false;
    const auto effect = [&] {
      begun = true;
      effect_(tx, event);
    };
    try {
      if (!inbox_.once(tx, group_, event.id(), effect)) return;  // there is nothing in it
    } catch (const PermanentError& error) {
      refuse_record(error, begun);
      throw;
    } catch (const DatabaseError& error) {
      refuse_record(error, begun);
      throw;
    }
    if (!tx.open()) {
      throw MisuseError("the effect of consumer group " + quote(group_) +
                        " ended its transaction, which the listener does: leave out the commit() "
                        "or rollback(), and throw to roll back");
    }
    tx.commit();
  }

  // Unless it is the effect's own failure: the consumer's database is not as it should be. No
  // event is to blame for that.
  static void refuse_record(const Error& error, bool begun) {
    if (!begun) throw UnavailableError(error.what());
  }

  Transaction begin() {
    try {
      return writer_.begin();
    } catch (const MisuseError&) {
      throw;
    } catch (const Error& error) {
      throw UnavailableError(error.what());  // nothing was done for this event yet
    }
  }

  // A collision and a database that is unreachable, or takes no writes, look the same; what tells
  // them apart is whether a record can be written. It is rolled back.
  void check_database(const Error& error) {
    try {
      Transaction tx = writer_.begin();
      static_cast<void>(inbox_.first(tx.connection(), group_, new_id()));
    } catch (const Error&) {
      throw UnavailableError(error.what());
    }
  }

  Inbox& inbox_;
  Writer& writer_;
  const std::string group_;
  const Effect effect_;
};

}  // namespace

class Inbox::Impl {
 public:
  Impl(std::shared_ptr<Store> store, InboxOptions options)
      : store_(std::move(store)),
        record_(render_sql(kRecord, *store_, "the inbox")),
        forget_(render_sql(kForget, *store_, "the inbox")),
        old_rows_(store_, purge_options(std::move(options)), "InboxOptions") {}

  bool first(Connection& connection, std::string_view group, std::string_view event_id) {
    const std::vector<Parameter> values = key(group, event_id);
    if (!connection.in_transaction()) {
      throw MisuseError("the inbox cannot record an event outside a transaction (" +
                        store_->description() + "): begin the effect's transaction");
    }
    return connection.execute(record_, values) == 1;
  }

  bool forget(std::string_view group, std::string_view event_id) {
    return store_->connect()->execute(forget_, key(group, event_id)) == 1;
  }

  Store& store() const { return *store_; }
  OldRows& old_rows() { return old_rows_; }

 private:
  // Constant after construction.
  const std::shared_ptr<Store> store_;
  const std::string record_;
  const std::string forget_;

  OldRows old_rows_;
};

Inbox::Inbox(std::shared_ptr<Store> store, InboxOptions options) {
  if (!store) throw MisuseError("inbox: the store is null");
  impl_ = std::make_unique<Impl>(std::move(store), std::move(options));
}

Inbox::~Inbox() {
  // The thread is the parent's: there is nothing here to end.
  if (!impl_->old_rows().schedule().in_this_process()) static_cast<void>(impl_.release());
}

bool Inbox::first(Connection& own, std::string_view group, std::string_view event_id) {
  return impl_->first(own, group, event_id);
}

void Inbox::first_async(AsyncExecutor executor, std::string_view group, std::string_view event_id,
                        Answered done) {
  internal::replay<bool>(
      std::move(executor), impl_->store(), "Inbox::first_async()",
      [this, group = std::string(group), id = std::string(event_id)](Connection& on) {
        return impl_->first(on, group, id);
      },
      [done = std::move(done)](std::exception_ptr error, std::optional<bool> first) {
        done(std::move(error), first.value_or(false));
      });
}

void Inbox::give_up(Transaction& tx) noexcept {
  try {
    tx.rollback();
  } catch (const std::exception&) {
    // The effect had ended it, or the connection was lost, and the transaction with it.
  }
}

std::shared_ptr<Listener> Inbox::listener(
    Writer& writer, std::string_view group,
    std::function<void(Transaction& tx, const Event& event)> effect) {
  check_group(group);
  if (!effect) {
    throw MisuseError("the effect of consumer group " + quote(group) + " is empty");
  }
  if (&writer.store() != &impl_->store()) {
    throw MisuseError("the writer for consumer group " + quote(group) + " is on " +
                      writer.store().description() + ", and its inbox on " +
                      impl_->store().description() + ": give both the same store");
  }
  return std::make_shared<Consumer>(*this, writer, std::string(group), std::move(effect));
}

bool Inbox::forget(std::string_view group, std::string_view event_id) {
  return impl_->forget(group, event_id);
}

std::int64_t Inbox::purge(std::stop_token stop) { return impl_->old_rows().purge(stop); }
void Inbox::start() { impl_->old_rows().schedule().start(); }
void Inbox::close() { impl_->old_rows().schedule().close(); }

namespace {

constexpr std::int64_t kNoneSeen = std::numeric_limits<std::int64_t>::min();

constexpr const char* kAdvance =
    "INSERT INTO {version} AS seen (consumer, aggregate_type, aggregate_id, version, seen_at)"
    " VALUES (?, ?, ?, ?, {now})"
    " ON CONFLICT (consumer, aggregate_type, aggregate_id)"
    " DO UPDATE SET version = excluded.version, seen_at = excluded.seen_at"
    " WHERE seen.version < excluded.version";

// MySQL has no condition there, so it takes two statements. The first makes the row if
// need be, and locks it. An UPDATE that finds no row would lock the gap where it is not, and
// two transactions with new aggregates would keep each other from inserting theirs.
constexpr const char* kMakeRow =
    "INSERT INTO {version} (consumer, aggregate_type, aggregate_id, version, seen_at)"
    " VALUES (?, ?, ?, ?, {now})"
    " ON DUPLICATE KEY UPDATE version = version";
constexpr const char* kAdvanceRow =
    "UPDATE {version} SET version = ?, seen_at = {now}"
    " WHERE consumer = ? AND aggregate_type = ? AND aggregate_id = ? AND version < ?";

}  // namespace

class VersionGuard::Impl {
 public:
  explicit Impl(std::shared_ptr<Store> store)
      : store_(std::move(store)),
        in_two_steps_(store_->capabilities().dialect == Dialect::mysql),
        insert_(render_sql(in_two_steps_ ? kMakeRow : kAdvance, *store_, "the version guard")),
        update_(render_sql(kAdvanceRow, *store_, "the version guard")) {}

  bool advance(Connection& connection, std::string_view group, std::string_view aggregate_type,
               std::string_view aggregate_id, std::int64_t version) const {
    // Before the statement: MySQL may cut them to fit, and take two aggregates for one.
    check_group(group);
    check_name("aggregate type", aggregate_type, kMaxAggregateTypeLength);
    check_name("aggregate id", aggregate_id, kMaxAggregateIdLength);
    if (version == kNoneSeen) {
      throw MisuseError("version " + std::to_string(version) +
                        " is reserved for \"no version\": use a greater one");
    }
    if (!connection.in_transaction()) {
      throw MisuseError("the version guard cannot record a version outside a transaction (" +
                        store_->description() + "): begin the transaction that uses the version");
    }
    const Parameter key[] = {group, aggregate_type, aggregate_id};
    if (!in_two_steps_) {
      return connection.execute(insert_, std::vector<Parameter>{key[0], key[1], key[2], version}) ==
             1;
    }
    connection.execute(insert_, std::vector<Parameter>{key[0], key[1], key[2], kNoneSeen});
    return connection.execute(
               update_, std::vector<Parameter>{version, key[0], key[1], key[2], version}) == 1;
  }

  const Store& store() const { return *store_; }

 private:
  // Constant after construction.
  const std::shared_ptr<Store> store_;
  const bool in_two_steps_;
  const std::string insert_;
  const std::string update_;
};

VersionGuard::VersionGuard(std::shared_ptr<Store> store) {
  if (!store) throw MisuseError("version guard: the store is null");
  impl_ = std::make_unique<Impl>(std::move(store));
}

VersionGuard::~VersionGuard() = default;

bool VersionGuard::advance(Transaction& tx, std::string_view group, std::string_view aggregate_type,
                           std::string_view aggregate_id, std::int64_t version) {
  return impl_->advance(tx.connection(), group, aggregate_type, aggregate_id, version);
}

bool VersionGuard::advance(Connection& own, std::string_view group, std::string_view aggregate_type,
                           std::string_view aggregate_id, std::int64_t version) {
  return impl_->advance(own, group, aggregate_type, aggregate_id, version);
}

void VersionGuard::advance_async(AsyncExecutor executor, std::string_view group,
                                 std::string_view aggregate_type, std::string_view aggregate_id,
                                 std::int64_t version, Answered done) {
  internal::replay<bool>(
      std::move(executor), impl_->store(), "VersionGuard::advance_async()",
      [this, group = std::string(group), type = std::string(aggregate_type),
       id = std::string(aggregate_id),
       version](Connection& on) { return impl_->advance(on, group, type, id, version); },
      [done = std::move(done)](std::exception_ptr error, std::optional<bool> newer) {
        done(std::move(error), newer.value_or(false));
      });
}

}  // namespace outbox
