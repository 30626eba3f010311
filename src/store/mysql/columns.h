// The columns that rows are read by.
#pragma once

#include <string_view>

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

// Where rows are looked for by their numbers. Left to itself, the server looks at all
// rows of a small table, and waits for those that somebody is writing.
inline constexpr std::string_view kByNumber = "{table} AS event FORCE INDEX (PRIMARY)";

}  // namespace outbox::mysql
