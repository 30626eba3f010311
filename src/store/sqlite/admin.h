// What operators ask of the table and do to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "client/sqlite/statement.h"
#include "outbox/admin/admin.h"
#include "store/common/admin.h"
#include "store/sqlite/admin_sql.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// A run whose rows are read as those of the servers are.
class Found : public Run {
 public:
  using Run::Run;

  Time time(int column) const { return stored_time(integer(column)); }
  std::optional<Time> optional_time(int column) const {
    return is_null(column) ? std::nullopt : std::optional(time(column));
  }
};

// The statements behind TableAdmin's calls: see store/common/database_admin.h. Only what changes
// rows takes the turn to write. Used by one thread at a time.
class AdminStatements {
 public:
  using Found = sqlite::Found;
  using Key = Seq;

  // Throws PermanentError if the file was deleted or replaced: what only reads would read the
  // old one. (What writes is checked again when its transaction begins.)
  explicit AdminStatements(Database& database) : database_(database) { config().check_file(); }

  Found has_pending() { return run(sql::kHasPending); }
  Found count_pending();
  Found count_dead() { return run(sql::kCountAllDead); }
  std::int64_t count_broken() { return count_broken_rows(database_); }
  Found find(std::string_view event_id) { return run(sql::kFind, event_id); }
  Found list(const EventFilter& filter, StatusBits statuses, Seq after, std::int64_t limit);
  Found count(const EventFilter& filter, StatusBits statuses);
  Found dead_groups(const EventFilter& filter, std::int64_t limit);
  Found lane(int /*shard*/, LaneKey lane, std::int64_t limit) {
    return run(sql::kLaneOverview, lane, limit);
  }
  Found match(const EventFilter& filter, StatusBits statuses, Seq after, std::int64_t limit);
  Found old(Purgeable what, Time before, Seq after, std::int64_t limit);
  Found count_old(Purgeable what, Time before);

  // While the visitor says true.
  template <class Visit>
  void each_lane(std::int64_t /*limit*/, const Visit& visit) {
    for (auto lane = next_lane(kNoLane); lane && visit(0, *lane);) lane = next_lane(*lane);
  }

  std::vector<Member> members();

  bool replay(std::string_view event_id);
  bool discard(std::string_view event_id);
  std::int64_t replay(const std::vector<Key>& rows, const EventFilter& filter, StatusBits statuses);
  std::int64_t discard(const std::vector<Key>& rows, const EventFilter& filter);
  std::int64_t remove(const std::vector<Key>& rows, Purgeable what, Time before, bool archive);

  EventRecord record(const Found& found) const;
  static Key key(const Found& found) { return found.integer(0); }

 private:
  const StoreConfig& config() const { return config_of(database_); }
  template <class... Args>
  Found run(const Sql& sql, const Args&... args) {
    return Found(database_[sql], args...);
  }
  std::optional<LaneKey> next_lane(LaneKey after);

  Database& database_;
};

}  // namespace outbox::sqlite
