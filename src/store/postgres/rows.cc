#include "store/postgres/rows.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "core/bounded.h"
#include "core/quote.h"
#include "core/time_text.h"
#include "outbox/error.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

// As kRowColumnNames lists them.
enum Column {
  kSeq,
  kShard,
  kHold,
  kEventId,
  kEventType,
  kAggregateType,
  kAggregateId,
  kTenantId,
  kStatus,
  kAttempts,
  kCrashes,
  kAvailableAt,
  kCreatedAt,
  kContentType,
  kProgress,
  kHeaders,
  kPayload,
  kPayloadBytes,
  kReadAt,
};
static_assert(kHold == kHoldColumn && kReadAt + 1 == kRowColumns);

constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kBytesType = "application/octet-stream";

std::string_view default_content_type(bool is_json) { return is_json ? kJsonType : kBytesType; }

void add_defect(std::string& defect, std::string_view reason) {
  if (!defect.empty()) defect.append("; ");
  defect.append(reason);
}

// The engine counts on from here: whatever another program stored must not
// overflow, nor make an event that has used up its attempts look fresh.
constexpr std::int64_t kMostCounted = 1'000'000'000;

int decode_count(std::int64_t stored, const char* name, std::string& defect) {
  const std::int64_t count = std::clamp<std::int64_t>(stored, 0, kMostCounted);
  if (count != stored) {
    add_defect(defect, std::string(name) + " is " + std::to_string(stored) +
                           ", not between 0 and " + std::to_string(kMostCounted));
  }
  return static_cast<int>(count);
}

Headers decode_headers(std::string_view text, const JsonCodec& codec, std::string& defect) {
  if (text.empty()) return {};
  try {
    return codec.decode(text);
  } catch (const std::exception& error) {
    add_defect(defect, std::string("headers cannot be decoded: ") + error.what());
    return {};
  }
}

Payload decode_payload(const Result& result, int row) {
  const bool is_json = !result.is_null(row, kPayload);
  std::string content_type(result.is_null(row, kContentType) ? default_content_type(is_json)
                                                             : result.text(row, kContentType));
  std::string data(result.text(row, is_json ? kPayload : kPayloadBytes));
  return is_json ? json(std::move(data), std::move(content_type))
                 : bytes(std::move(data), std::move(content_type));
}

}  // namespace

Row decode_row(const Result& result, int row, const JsonCodec& codec) {
  std::string defect;
  EventFields fields;
  fields.id = result.text(row, kEventId);
  fields.type = result.text(row, kEventType);
  if (const auto type = result.text(row, kAggregateType); !type.empty()) {
    fields.aggregate_type = type;
  }
  fields.aggregate_id = result.text(row, kAggregateId);
  fields.tenant_id = result.text(row, kTenantId);
  fields.headers = decode_headers(result.text(row, kHeaders), codec, defect);
  fields.payload = decode_payload(result, row);
  fields.occurred_at = result.time(row, kCreatedAt);
  fields.available_at = result.time(row, kAvailableAt);
  const auto available_in = internal::bounded(fields.available_at - result.time(row, kReadAt));
  const int attempts = decode_count(result.integer(row, kAttempts), "attempts", defect);
  const int crashes = decode_count(result.integer(row, kCrashes), "crashes", defect);
  return Row{
      .ref = {.seq = result.integer(row, kSeq),
              .shard = static_cast<int>(result.integer(row, kShard)),
              .hold = result.integer(row, kHold)},
      .event = Event::restore(std::move(fields)),
      .status = static_cast<Status>(result.integer(row, kStatus)),
      .attempts = attempts,
      .crashes = crashes,
      .progress = std::string(result.text(row, kProgress)),
      // What cannot be delivered need not wait for its time, which may never come.
      .available_in = defect.empty() ? available_in : std::chrono::microseconds{0},
      .defect = std::move(defect),
  };
}

std::vector<Row> decode_rows(const Result& result, const JsonCodec& codec) {
  std::vector<Row> rows;
  rows.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) rows.push_back(decode_row(result, row, codec));
  return rows;
}

std::int64_t sql_limit(std::size_t limit) {
  constexpr std::size_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(limit, kMost));
}

namespace {

using OptionalText = std::optional<std::string_view>;

// Rows a statement: the arrays of more would only cost memory.
constexpr std::size_t kManyRows = 500;

std::string encoded_headers(const Session& session, const Event& event) {
  if (event.headers().empty()) return {};
  return session.environment().options.codec->encode(event.headers());
}

OptionalText content_type_of(const Event& event) {
  if (event.content_type() == default_content_type(event.is_json())) return std::nullopt;
  return event.content_type();
}

// By this process's clock, from which the event's own time was taken.
std::int64_t hold_of(const Session& session, const Event& event) {
  const bool delayed = event.available_at() > session.environment().options.clock->now();
  return delayed ? hold_until(micros(event.available_at())) : 0;
}

RowRef ref_of(const Result& result, int row, std::int64_t hold) {
  return {.seq = result.integer(row, 0),
          .shard = static_cast<int>(result.integer(row, 1)),
          .hold = hold};
}

RowRef insert_one(Session& session, const Event& event, OptionalText owner) {
  const std::string headers = encoded_headers(session, event);
  const std::int64_t hold = hold_of(session, event);
  const std::string_view payload = event.payload();
  const Result result = session.run(
      sql::kInsert, event.id(), event.type(), event.aggregate_type(),
      null_if_empty(event.aggregate_id()), null_if_empty(event.tenant_id()), content_type_of(event),
      null_if_empty(headers), event.is_json() ? OptionalText(payload) : std::nullopt,
      event.is_json() ? std::nullopt : std::optional(Bytes{payload}), event.occurred_at(),
      event.available_at(), hold, hold == 0 ? owner : std::nullopt);
  return ref_of(result, 0, hold);
}

// The columns of several events, as arrays.
struct Columns {
  std::vector<OptionalText> ids, types, aggregate_types, aggregate_ids, tenants, content_types,
      headers, payloads;
  std::vector<std::optional<Bytes>> payload_bytes;
  std::vector<std::int64_t> occurred, available, holds;
  std::vector<std::string> encoded;  // what `headers` points to
};

Columns columns_of(const Session& session, std::span<const Event> events) {
  Columns columns;
  columns.encoded.reserve(events.size());
  for (const Event& event : events) {
    columns.encoded.push_back(encoded_headers(session, event));
    columns.ids.emplace_back(event.id());
    columns.types.emplace_back(event.type());
    columns.aggregate_types.emplace_back(event.aggregate_type());
    columns.aggregate_ids.push_back(null_if_empty(event.aggregate_id()));
    columns.tenants.push_back(null_if_empty(event.tenant_id()));
    columns.content_types.push_back(content_type_of(event));
    columns.headers.push_back(null_if_empty(columns.encoded.back()));
    const std::string_view payload = event.payload();
    columns.payloads.push_back(event.is_json() ? OptionalText(payload) : std::nullopt);
    columns.payload_bytes.push_back(event.is_json() ? std::nullopt : std::optional(Bytes{payload}));
    columns.occurred.push_back(micros(event.occurred_at()));
    columns.available.push_back(micros(event.available_at()));
    columns.holds.push_back(hold_of(session, event));
  }
  return columns;
}

void insert_many(Session& session, std::span<const Event> events, OptionalText owner,
                 std::vector<RowRef>& refs) {
  const Columns columns = columns_of(session, events);
  const Result result = session.run(
      sql::kInsertMany, columns.ids, columns.types, columns.aggregate_types, columns.aggregate_ids,
      columns.tenants, columns.content_types, columns.headers, columns.payloads,
      columns.payload_bytes, columns.occurred, columns.available, columns.holds, owner);
  for (int row = 0; row < result.rows(); ++row) {
    refs.push_back(ref_of(result, row, columns.holds[static_cast<std::size_t>(row)]));
  }
}

}  // namespace

std::vector<RowRef> insert_rows(Session& session, std::span<const Event> events,
                                const InsertOptions& options) {
  const OptionalText owner = null_if_empty(options.owner);
  std::vector<RowRef> refs;
  refs.reserve(events.size());
  if (events.size() == 1) {
    refs.push_back(insert_one(session, events.front(), owner));
    return refs;
  }
  // One statement after the other: if a later one fails, the server takes no commit
  // of the earlier ones either.
  for (; !events.empty(); events = events.subspan(std::min(events.size(), kManyRows))) {
    insert_many(session, events.first(std::min(events.size(), kManyRows)), owner, refs);
  }
  return refs;
}

}  // namespace outbox::postgres
