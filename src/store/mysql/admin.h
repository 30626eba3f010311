// What operators ask of the table and do to it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/shards.h"
#include "outbox/admin/admin.h"
#include "store/common/admin.h"
#include "store/mysql/admin_sql.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

using Found = ResultRows<Result>;

// The statements behind TableAdmin's calls: see store/common/database_admin.h. Searches lock
// nothing; what changes rows is one statement, to archive them one short transaction. Used by one
// thread at a time.
class AdminStatements {
 public:
  using Found = mysql::Found;
  using Key = Seq;

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

  // While the visitor says true. Each search finds the next lane in the index.
  template <class Visit>
  void each_lane(std::int64_t /*limit*/, const Visit& visit) {
    for (int shard = 0; shard < kShards; ++shard) {
      for (auto lane = next_lane(shard, kNoLane); lane; lane = next_lane(shard, *lane)) {
        if (!visit(shard, *lane)) return;
      }
    }
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
  template <class... Args>
  Built built(const SqlTemplate& sql, const Args&... args) const {
    return Built(sql, config_of(database_), args...);
  }
  template <class... Args>
  Found run(const SqlTemplate& sql, const Args&... args) {
    return Found(database_.run(built(sql, args...)));
  }
  std::optional<LaneKey> next_lane(int shard, LaneKey after);
  std::optional<Seq> seq_of(std::string_view event_id);
  Built matching(const EventFilter& filter, StatusBits statuses) const;
  Built purgeable(Purgeable what, Time before) const;
  template <class Change>
  std::int64_t in_parts(const std::vector<Key>& rows, const Change& change);
  std::int64_t change_and_tell(std::span<const Seq> rows, const Built& change);
  std::int64_t remove_part(std::span<const Seq> rows, const Built& still_old, bool archive);

  Database& database_;
};

}  // namespace outbox::mysql
