// Rows as the stores on servers select them.
#pragma once

#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "outbox/spi/json_codec.h"
#include "outbox/spi/store.h"
#include "store/common/rows.h"

namespace outbox {

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

// Up to so many bytes a payload comes with its row; the statements spell it out.
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

}  // namespace outbox
