// What operators ask of the table and do to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/sqlite/statement.h"
#include "outbox/spi/store.h"
#include "store/sqlite/database.h"

namespace outbox::sqlite {

// What decode_record() reads: `{record}` in operator_sql.h.
inline constexpr std::string_view kRecordColumnNames = "{columns}, last_error, locked_by, done_at";

// The row that the run stands on, as an operator sees it.
EventRecord decode_record(const Run& run, const StoreConfig& config);

// The calls of the same names of Store that look at many rows. Each search is a
// read of its own; only what changes rows takes the turn to write, and not
// before it knows that there are such rows. Used by one thread at a time.
class Operators {
 public:
  explicit Operators(Database& database) : database_(database) {}

  Counts counts();
  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit);
  std::int64_t count(const EventFilter& filter);
  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit);
  std::vector<HeldAggregate> held_aggregates(std::size_t limit);

  Changed replay(const EventFilter& filter, Seq after, std::size_t limit);
  Changed discard(const EventFilter& filter, Seq after, std::size_t limit);
  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive);
  std::int64_t count_purgeable(Purgeable what, Time before);

  std::vector<Member> members();

 private:
  const StoreConfig& config() const { return database_.config(); }

  Database& database_;
};

}  // namespace outbox::sqlite
