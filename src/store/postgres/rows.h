// Events to rows and back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/postgres/session.h"
#include "client/postgres/statement.h"
#include "outbox/event.h"
#include "outbox/spi/json_codec.h"
#include "outbox/spi/store.h"
#include "store/common/row_columns.h"
#include "store/common/rows.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// What decode_row() reads, in this order: `{columns}` in sql.h. What a statement
// selects beside them comes behind. The server's clock is read with each row, after
// the snapshot was taken: a row in it that was available when it was committed is
// available now.
inline constexpr std::string_view kRowColumnNames =
    "seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,"
    " attempts, crashes, available_at, created_at, content_type, progress, headers, payload,"
    " payload_bytes, clock_timestamp() AS read_at";

// The same with large payloads left out (see decode_light_rows()): `{light}`. To ask
// for their size does not read them.
inline constexpr std::string_view kLightColumnNames =
    "seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,"
    " attempts, crashes, available_at, created_at, content_type, progress, headers,"
    " CASE WHEN octet_length(payload) <= 8192 THEN payload END AS payload,"
    " CASE WHEN octet_length(payload_bytes) <= 8192 THEN payload_bytes END AS payload_bytes,"
    " clock_timestamp() AS read_at, payload IS NOT NULL AS is_json,"
    " coalesce(octet_length(payload), octet_length(payload_bytes))::bigint AS payload_size";
static_assert(kInlinePayload == 8'192, "the columns spell it out");

// While it lives, text goes to the server in UTF-8, whatever encoding the owner of the
// open transaction has set.
class InUtf8 {
 public:
  explicit InUtf8(Session& session);
  ~InUtf8();
  InUtf8(const InUtf8&) = delete;
  InUtf8& operator=(const InUtf8&) = delete;

 private:
  Session& session_;
  std::string before_;  // empty: UTF-8 it was
};

// Events that are to be inserted.
class Insertion {
 public:
  Insertion(std::span<const Event> events, const InsertOptions& options, const Options& store);

  // The statements, to be run in this order in an open transaction. Throws MisuseError
  // that names the id if one is in the table already; after an error the server takes
  // no statement in it but a rollback.
  std::span<const Call> calls() const { return calls_; }

  // Where the rows are: before they are inserted without seq and shard, then from what
  // the calls returned.
  std::vector<RowRef> refs() const;
  std::vector<RowRef> refs(std::span<const Result> results) const;

 private:
  std::vector<Call> calls_;
  std::vector<std::int64_t> holds_;  // of the events
};

// Inserts them now. A transaction must be open.
std::vector<RowRef> insert_rows(Session& session, const Insertion& insertion);

}  // namespace outbox::postgres
