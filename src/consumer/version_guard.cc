#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "consumer/dialect.h"
#include "consumer/replay.h"
#include "outbox/consumer/inbox.h"
#include "outbox/error.h"

namespace outbox {
namespace {

using internal::render_sql;

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
    check_name("consumer group", group, kMaxConsumerLength);
    check_name("aggregate type", aggregate_type, kMaxAggregateTypeLength);
    check_name("aggregate id", aggregate_id, kMaxAggregateIdLength);
    if (version == kNoneSeen) {
      throw MisuseError("version " + std::to_string(version) +
                        " is the lowest there is, which stands for none: versions begin above it");
    }
    if (!connection.in_transaction()) {
      throw MisuseError("the version guard was to note a version outside a transaction (" +
                        store_->description() + "): begin the one that uses the version");
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
