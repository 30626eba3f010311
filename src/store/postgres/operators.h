// What operators ask of the table and do to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/event_row.h"
#include "outbox/admin/admin.h"
#include "store/common/operators.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// The calls of the same names of Admin. Each search is a read of its own; what
// changes rows is one statement that the server runs by itself. Used by one thread at
// a time.
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
  std::int64_t replay(const std::vector<OptionalText>& ids, const EventFilter& filter,
                      StatusBits statuses);
  std::int64_t discard(const std::vector<OptionalText>& ids, const EventFilter& filter);
  EventRecord decode_record(const Result& result, int row) const;

  Database& database_;
};

}  // namespace outbox::postgres
