// Rows as the stores on servers select them.
#pragma once

#include <cstddef>
#include <vector>

#include "outbox/json_codec.h"
#include "outbox/store.h"
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
};

// `Result` is the store's own. Contents that cannot be decoded make a defect, never an
// error.
template <class Result>
Row decode_row(const Result& result, int row, const JsonCodec& codec) {
  const bool is_json = !result.is_null(row, kPayloadColumn);
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
                 .payload = result.text(row, is_json ? kPayloadColumn : kPayloadBytesColumn),
                 .read_at = result.time(row, kReadAtColumn)},
                codec);
}

template <class Result>
std::vector<Row> decode_rows(const Result& result, const JsonCodec& codec) {
  std::vector<Row> rows;
  rows.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) rows.push_back(decode_row(result, row, codec));
  return rows;
}

}  // namespace outbox
