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

// Where rows are looked for by their numbers. Left to itself, the server looks at all
// rows of a small table, and waits for those that somebody is writing.
inline constexpr std::string_view kByNumber = "{table} AS event FORCE INDEX (PRIMARY)";

}  // namespace outbox::mysql
