#include "store/postgres/rows.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "core/bounded.h"
#include "core/quote.h"
#include "core/time_text.h"
#include "outbox/error.h"
#include "store/postgres/columns.h"
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

// Rows a statement: the arrays of more would only cost memory.
constexpr std::size_t kManyRows = 500;

Parameters parameters_of(const Event& event, std::int64_t hold, OptionalText owner,
                         const JsonCodec& codec) {
  const std::string headers = encoded_headers(codec, event);
  const std::string_view payload = event.payload();
  return Parameters(
      event.id(), event.type(), event.aggregate_type(), null_if_empty(event.aggregate_id()),
      null_if_empty(event.tenant_id()), content_type_of(event), null_if_empty(headers),
      event.is_json() ? OptionalText(payload) : std::nullopt,
      event.is_json() ? std::nullopt : std::optional(Bytes{payload}), event.occurred_at(),
      event.available_at(), hold, hold == 0 ? owner : std::nullopt);
}

}  // namespace

InUtf8::InUtf8(Session& session) : session_(session) {
  const char* set = PQparameterStatus(session.handle(), "client_encoding");
  if (set == nullptr || std::string_view(set) == "UTF8") return;
  before_ = set;
  session.run_script("SET LOCAL client_encoding TO 'UTF8'", "switch to UTF-8");
}

InUtf8::~InUtf8() {
  // The end of the transaction, or a rollback, sets it back by itself.
  if (before_.empty() || !session_.in_transaction()) return;
  static_cast<void>(
      session_.try_script(("SET LOCAL client_encoding TO '" + before_ + "'").c_str()));
}

Insertion::Insertion(std::span<const Event> events, const InsertOptions& options,
                     const Options& store)
    : holds_(holds_of(events, store.clock->now())) {
  const JsonCodec& codec = *store.codec;
  const OptionalText owner = null_if_empty(options.owner);
  if (events.size() == 1) {
    calls_.push_back({sql::kInsert, parameters_of(events.front(), holds_.front(), owner, codec)});
    return;
  }
  for (std::size_t at = 0; at < events.size(); at += kManyRows) {
    const std::size_t count = std::min(events.size() - at, kManyRows);
    calls_.push_back({sql::kInsertMany,
                      columns_of<Parameters>(
                          events.subspan(at, count),
                          std::span<const std::int64_t>(holds_).subspan(at, count), owner, codec)});
  }
}

std::vector<RowRef> Insertion::refs() const {
  std::vector<RowRef> refs;
  for (const std::int64_t hold : holds_) refs.push_back({.hold = hold});
  return refs;
}

std::vector<RowRef> Insertion::refs(std::span<const Result> results) const {
  std::vector<RowRef> refs;
  for (const Result& result : results) {
    for (int row = 0; row < result.rows(); ++row) {
      refs.push_back({.seq = result.integer(row, 0),
                      .shard = static_cast<int>(result.integer(row, 1)),
                      .hold = holds_[refs.size()]});
    }
  }
  return refs;
}

std::vector<RowRef> insert_rows(Session& session, const Insertion& insertion) {
  const InUtf8 in_utf8(session);
  std::vector<Result> results;
  for (const Call& call : insertion.calls()) {
    results.push_back(session.run(call.sql, call.parameters));
  }
  return insertion.refs(results);
}

}  // namespace outbox::postgres
