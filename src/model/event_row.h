// Events to rows and back, and what updates make of rows, as far as it is the same in every
// database.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

  Time read_at{};        // by the clock that available_at is compared with
  std::string defect{};  // what the store itself could not read; see add_defect()
};

// Contents that cannot be decoded make a defect, never an error: any program may have
// written the row.
Row decode(RowColumns columns, const JsonCodec& codec);

// One more reason why a row cannot be delivered.
void add_defect(std::string& defect, std::string_view reason);

// --- Reading, where a result is held as a whole: on servers ---

// In the order in which the kRowColumnNames of such a store lists them; what a statement
// selects beside them comes behind.
enum RowColumn {
  kSeqColumn,
  kShardColumn,
  kHoldColumn,
  kEventIdColumn,
  kEventTypeColumn,
  kAggregateTypeColumn,
  kAggregateIdColumn,
  kTenantIdColumn,
  kStatusColumn,
  kAttemptsColumn,
  kCrashesColumn,
  kAvailableAtColumn,
  kCreatedAtColumn,
  kContentTypeColumn,
  kProgressColumn,
  kHeadersColumn,
  kPayloadColumn,
  kPayloadBytesColumn,
  kReadAtColumn,
  kRowColumns,

  // Behind them, where large payloads are left out (`{light}` in statements):
  kIsJsonColumn = kRowColumns,
  kPayloadSizeColumn,
  kLightColumns,
};

// Payloads up to this many bytes come with their rows; the statements spell it out.
inline constexpr std::size_t kInlinePayload = 8'192;

// `Result` is the store's own. Contents that cannot be decoded make a defect, never an
// error.
template <class Result>
Row decode_row(const Result& result, int row, const JsonCodec& codec, bool is_json,
               std::string_view payload) {
  return decode({.ref = {.seq = result.integer(row, kSeqColumn),
                         .shard = static_cast<int>(result.integer(row, kShardColumn)),
                         .hold = result.integer(row, kHoldColumn)},
                 .event_id = result.text(row, kEventIdColumn),
                 .event_type = result.text(row, kEventTypeColumn),
                 .aggregate_type = result.text(row, kAggregateTypeColumn),
                 .aggregate_id = result.text(row, kAggregateIdColumn),
                 .tenant_id = result.text(row, kTenantIdColumn),
                 .status = result.integer(row, kStatusColumn),
                 .attempts = result.integer(row, kAttemptsColumn),
                 .crashes = result.integer(row, kCrashesColumn),
                 .available_at = result.time(row, kAvailableAtColumn),
                 .created_at = result.time(row, kCreatedAtColumn),
                 .content_type = result.optional_text(row, kContentTypeColumn),
                 .progress = result.text(row, kProgressColumn),
                 .headers = result.text(row, kHeadersColumn),
                 .is_json = is_json,
                 .payload = payload,
                 .read_at = result.time(row, kReadAtColumn)},
                codec);
}
template <class Result>
Row decode_row(const Result& result, int row, const JsonCodec& codec) {
  const bool is_json = !result.is_null(row, kPayloadColumn);
  return decode_row(result, row, codec, is_json,
                    result.text(row, is_json ? kPayloadColumn : kPayloadBytesColumn));
}

template <class Result>
std::vector<Row> decode_rows(const Result& result, const JsonCodec& codec) {
  std::vector<Row> rows;
  rows.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) rows.push_back(decode_row(result, row, codec));
  return rows;
}

// The rows of a result, in their order.
template <class Result>
std::vector<int> all_of(const Result& result) {
  std::vector<int> rows(static_cast<std::size_t>(result.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// Appends the rows `order` of a result without its large payloads, as far as the budget
// goes; true if it ended before them. `fetch` returns a Result of seq, payload and
// payload_bytes for those of the large ones that are wanted. A row that is gone by then is
// left out.
template <class Result, class Fetch>
bool decode_light_rows(const Result& light, std::span<const int> order, const JsonCodec& codec,
                       ByteBudget& budget, const Fetch& fetch, std::vector<Row>& rows) {
  std::vector<int> large;
  std::size_t wanted = 0;
  std::vector<bool> taken;
  for (; wanted < order.size() && !budget.spent(); ++wanted) {
    const int row = order[wanted];
    const auto size = static_cast<std::size_t>(light.integer(row, kPayloadSizeColumn));
    taken.push_back(budget.taken(light.text(row, kEventIdColumn)));
    budget.spend(taken.back() ? 0 : size);
    if (size > kInlinePayload && !taken.back()) large.push_back(row);
  }
  std::optional<Result> fetched;
  std::unordered_map<Seq, int> places;
  if (!large.empty()) {
    fetched.emplace(fetch(large));
    for (int row = 0; row < fetched->rows(); ++row) places[fetched->integer(row, 0)] = row;
  }
  for (std::size_t i = 0; i < wanted; ++i) {
    const int row = order[i];
    const bool is_json = light.integer(row, kIsJsonColumn) != 0;
    const bool is_large = light.is_null(row, is_json ? kPayloadColumn : kPayloadBytesColumn);
    std::string_view payload = light.text(row, is_json ? kPayloadColumn : kPayloadBytesColumn);
    if (is_large && !taken[i]) {
      const auto place = places.find(light.integer(row, kSeqColumn));
      if (place == places.end()) continue;
      payload = fetched->text(place->second, is_json ? 1 : 2);
    }
    rows.push_back(decode_row(light, row, codec, is_json, payload));
    rows.back().without_payload = is_large && taken[i];
  }
  return wanted < order.size();
}

// --- Updating ---

// The statements of the servers spell them out.
static_assert(static_cast<int>(StatusUpdate::Kind::retry) == 1 &&
              static_cast<int>(StatusUpdate::Kind::defer) == 2 &&
              static_cast<int>(StatusUpdate::Kind::dead) == 3 &&
              static_cast<int>(StatusUpdate::Kind::hold) == 4 &&
              static_cast<int>(StatusUpdate::Kind::crashes) == 5 &&
              static_cast<int>(StatusUpdate::Kind::unblock) == 6);

inline bool is_done(const StatusUpdate& update) { return update.kind == StatusUpdate::Kind::done; }

// The first updates, as far as they are of rows that differ: a statement sees the table as
// it was before it, so a row's second update needs another one.
std::span<const StatusUpdate> first_of_each_row(std::span<const StatusUpdate> updates);

// What a row that an update did not change looks like, if its answer was lost.
struct RowState {
  Status status = Status::pending;
  std::int64_t attempts = 0;
  std::optional<std::int64_t> hold{};
  std::string_view locked_by{};
  std::string_view last_error{};
};

// Whether the row is as the update wants it already. `claim_owner`: whose update it is, with
// row claims; absent without.
bool already_applied(const StatusUpdate& update, const RowState& row,
                     const std::optional<std::string_view>& claim_owner);

}  // namespace outbox
