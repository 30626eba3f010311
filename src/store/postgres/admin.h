// What operators ask of the table and do to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/admin/admin.h"
#include "store/common/admin.h"
#include "store/postgres/admin_sql.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

using Found = ResultRows<Result>;

// The statements behind TableAdmin's calls: see store/common/database_admin.h. What changes rows is
// one statement, which the server runs by itself. Used by one thread at a time.
class AdminStatements {
 public:
  using Found = postgres::Found;
  using Key = std::string;  // the id of an event

  explicit AdminStatements(Database& database) : database_(database) {}

  Found has_pending() { return run(sql::kHasPending); }
  Found count_pending() { return run(sql::kCountPending); }
  Found count_dead() { return run(sql::kCountAllDead); }
  Found find(std::string_view event_id) { return run(sql::kFind, event_id); }
  Found list(const EventFilter& filter, StatusBits statuses, Seq after, std::int64_t limit);
  Found count(const EventFilter& filter, StatusBits statuses);
  Found dead_groups(const EventFilter& filter, std::int64_t limit);
  Found lane(int shard, LaneKey lane, std::int64_t limit) {
    return run(sql::kLaneOverview, shard, lane, limit);
  }
  Found match(const EventFilter& filter, StatusBits statuses, Seq after, std::int64_t limit);
  Found old(Purgeable what, Time before, Seq after, std::int64_t limit);
  Found count_old(Purgeable what, Time before);

  // While the visitor says true.
  template <class Visit>
  void each_lane(std::int64_t limit, const Visit& visit) {
    Found lanes = held_lanes(limit);
    while (lanes.step() && visit(static_cast<int>(lanes.integer(0)), lanes.integer(1))) {
    }
  }

  std::vector<Member> members();

  bool replay(std::string_view event_id);
  bool discard(std::string_view event_id);
  std::int64_t replay(const std::vector<Key>& ids, const EventFilter& filter, StatusBits statuses);
  std::int64_t discard(const std::vector<Key>& ids, const EventFilter& filter);
  std::int64_t remove(const std::vector<Key>& ids, Purgeable what, Time before, bool archive);

  EventRecord record(const Found& found) const;
  static Key key(const Found& found) { return std::string(found.text(1)); }

 private:
  template <class... Args>
  Found run(const Sql& sql, const Args&... args) {
    return Found(database_.run(sql, args...));
  }
  Found held_lanes(std::int64_t limit) { return run(sql::kLanes, limit); }

  Database& database_;
};

}  // namespace outbox::postgres
