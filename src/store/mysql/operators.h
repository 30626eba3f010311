// What operators ask of the table and do to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "outbox/admin/admin.h"
#include "store/common/operators.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

// The calls of the same names of Admin. Each search is a read of its own, which locks
// nothing; what changes rows is one statement, to archive them one short transaction.
// Used by one thread at a time.
class Operators {
 public:
  explicit Operators(Database& database) : database_(database) {}

  bool has_pending();
  Counts counts();
  std::optional<EventRecord> find(std::string_view event_id);
  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit);
  std::int64_t count(const EventFilter& filter);
  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit);
  std::vector<HeldAggregate> held_aggregates(std::size_t limit);

  bool replay(std::string_view event_id);
  bool discard(std::string_view event_id);
  Changed replay(const EventFilter& filter, Seq after, std::size_t limit);
  Changed discard(const EventFilter& filter, Seq after, std::size_t limit);
  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive);
  std::int64_t count_purgeable(Purgeable what, Time before);

  std::vector<Member> members();

 private:
  template <class... Args>
  Built built(const SqlTemplate& sql, const Args&... args) const {
    return Built(sql, config_of(database_), args...);
  }
  template <class... Args>
  Result run(const SqlTemplate& sql, const Args&... args) {
    return database_.run(built(sql, args...));
  }
  Built matching(const EventFilter& filter, StatusBits statuses) const;
  Built old(Purgeable what, Time before) const;
  EventRecord decode_record(const Result& result, int row) const;
  template <class Change>
  std::int64_t in_parts(const std::vector<Seq>& rows, const Change& change);
  std::int64_t replay(std::span<const Seq> rows, const EventFilter& filter, StatusBits statuses);
  std::int64_t discard(std::span<const Seq> rows, const EventFilter& filter);
  std::int64_t remove(std::span<const Seq> rows, Purgeable what, Time before, bool archive);
  std::int64_t change_and_tell(std::span<const Seq> rows, const Built& change);
  std::optional<Seq> seq_of(std::string_view event_id);

  Database& database_;
};

}  // namespace outbox::mysql
