// What operators ask of the table and do to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "client/sqlite/statement.h"
#include "outbox/admin/admin.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// What decode_record() reads: `{record}` in operator_sql.h.
inline constexpr std::string_view kRecordColumnNames = "{columns}, last_error, locked_by, done_at";

// The calls of the same names of Admin. Each search is a
// read of its own; only what changes rows takes the turn to write, and not
// before it knows that there are such rows. Used by one thread at a time.
class Operators {
 public:
  // Throws PermanentError if the file was deleted or replaced: what only reads would read the
  // old one. (What writes is checked again when its transaction begins.)
  explicit Operators(Database& database) : database_(database) { config().check_file(); }

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
  const StoreConfig& config() const { return config_of(database_); }

  Database& database_;
};

}  // namespace outbox::sqlite
