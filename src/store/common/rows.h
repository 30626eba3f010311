// Events to rows and back, as far as it is the same in every database.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "outbox/event.h"
#include "outbox/spi/json_codec.h"
#include "outbox/spi/store.h"

namespace outbox {

using OptionalText = std::optional<std::string_view>;

// Absent fields are NULL in the table.
inline OptionalText null_if_empty(std::string_view text) {
  return text.empty() ? std::nullopt : OptionalText(text);
}

inline std::int64_t micros(Time time) { return time.time_since_epoch().count(); }
inline Time time_of(std::int64_t micros_since_1970) {
  return Time{std::chrono::microseconds{micros_since_1970}};
}

// What a statement takes as LIMIT; with one more, so that it shows whether that were
// all.
inline std::int64_t sql_limit(std::size_t limit) {
  constexpr std::size_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(limit, kMost));
}
inline std::int64_t one_more(std::size_t limit) { return sql_limit(std::max(limit, limit + 1)); }

// What is left of ReadLimit::bytes while rows are read.
class ByteBudget {
 public:
  // The limit must outlive it.
  explicit ByteBudget(const ReadLimit& limit) : limit_(limit), left_(limit.bytes) {}

  bool taken(std::string_view event_id) const { return limit_.taken && limit_.taken(event_id); }
  void spend(std::size_t bytes) {
    left_ -= std::min(left_, bytes);
    begun_ = true;
  }
  // No further row is to be returned.
  bool spent() const { return begun_ && left_ == 0; }

 private:
  const ReadLimit& limit_;
  std::size_t left_;
  bool begun_ = false;
};

// --- Writing ---

// The hold of a row that is due at that time. Never 0, which means ready.
inline std::int64_t hold_until(Time due) { return -std::max<std::int64_t>(micros(due), 1); }

// Of a new row. `now`: of the writer's clock, from which the times of events are taken; but it may
// have been set since then. So what was available when it occurred does not wait, and what is to
// wait for a while does, whatever it says.
inline std::int64_t hold_of(const Event& event, Time now) {
  if (event.available_at() <= event.occurred_at()) return 0;
  const bool waits = event.delay() || event.available_at() > now;
  return waits ? hold_until(event.available_at()) : 0;
}

// The delay that a server is to count from its own clock's time at the INSERT, whatever that of
// the writer says; nullopt if the row is not to wait, or for a time of day, or for longer than
// databases reckon with microseconds.
inline std::optional<std::chrono::microseconds> delay_of(const Event& event, std::int64_t hold) {
  constexpr std::chrono::hours kLongest{100 * 365 * 24};
  if (hold == 0 || !event.delay() || *event.delay() > kLongest) return std::nullopt;
  return event.delay();
}

// Absent if it says no more than the kind of the payload does.
OptionalText content_type_of(const Event& event);

// Empty if there are none.
std::string encoded_headers(const Event& event, const JsonCodec& codec);

// --- Reading ---

// The columns of a row as a store has read them. NULL is empty or 0 unless it is
// absent here.
struct RowColumns {
  RowRef ref{};
  std::string_view event_id{};
  std::string_view event_type{};
  std::string_view aggregate_type{};
  std::string_view aggregate_id{};
  std::string_view tenant_id{};
  std::int64_t status = 0;
  std::int64_t attempts = 0;
  std::int64_t crashes = 0;
  Time available_at{};
  Time created_at{};
  OptionalText content_type{};
  std::string_view progress{};
  std::string_view headers{};
  bool is_json = true;
  std::string_view payload{};

  Time read_at{};        // by the clock that available_at is judged by
  std::string defect{};  // what the store itself could not read; see add_defect()
};

// Contents that cannot be decoded make a defect, never an error: any program may have
// written the row.
Row decode(RowColumns columns, const JsonCodec& codec);

// One more reason why a row cannot be delivered.
void add_defect(std::string& defect, std::string_view reason);

}  // namespace outbox
