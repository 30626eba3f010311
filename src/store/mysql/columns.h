// The columns that rows are read by, and where they are looked for: what statements call by name.
#pragma once

#include <string_view>

#include "store/common/shards.h"

namespace outbox::mysql {

// What decode_row() reads, in this order: `{columns}` in statements. What a statement
// selects beside them comes behind.
inline constexpr std::string_view kRowColumnNames =
    "seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,"
    " attempts, crashes, available_at, created_at, content_type, progress, headers, payload,"
    " payload_bytes, utc_timestamp(6)";

// The same with large payloads left out (see decode_light_rows()): `{light}`.
inline constexpr std::string_view kLightColumnNames =
    "seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,"
    " attempts, crashes, available_at, created_at, content_type, progress, headers,"
    " CASE WHEN length(payload) <= 8192 THEN payload END,"
    " CASE WHEN length(payload_bytes) <= 8192 THEN payload_bytes END,"
    " utc_timestamp(6), payload IS NOT NULL, coalesce(length(payload), length(payload_bytes))";

// As an operator sees them: `{record}`.
inline constexpr std::string_view kRecordColumnNames =
    "seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,"
    " attempts, crashes, available_at, created_at, content_type, progress, headers, payload,"
    " payload_bytes, utc_timestamp(6), last_error, locked_by, done_at";

// The moment, as `hold` counts it: `{now}`.
inline constexpr std::string_view kNow =
    "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";

// Where rows are looked for by their numbers: `{by_number}`. Left to itself, the server looks
// at all rows of a small table, and waits for those that somebody is writing.
inline constexpr std::string_view kByNumber = "{table} AS event FORCE INDEX (PRIMARY)";

// Where operators look for rows, so that millions of delivered events cost a search for others
// nothing: the index, and the condition that it serves. `{dead}`, `{unfinished}`, `{anywhere}`.
inline constexpr std::string_view kDead = "{table} FORCE INDEX (by_death) WHERE dead = 1";
inline constexpr std::string_view kUnfinished =
    "{table} FORCE INDEX (by_hold) WHERE shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,"
    " 14, 15) AND hold IS NOT NULL AND status IN (0, 2)";
static_assert(kShards == 16, "the statements spell it out");
inline constexpr std::string_view kAnywhere = "{table} FORCE INDEX (PRIMARY) WHERE TRUE";

}  // namespace outbox::mysql
