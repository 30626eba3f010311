#include "store/postgres/rows.h"

#include <algorithm>
#include <optional>
#include <string>

#include "store/postgres/columns.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

// Rows a statement: the arrays of more would only cost memory.
constexpr std::size_t kManyRows = 500;

Parameters parameters_of(const Event& event, std::int64_t hold, OptionalText owner,
                         const JsonCodec& codec) {
  const std::string headers = encoded_headers(event, codec);
  const std::string_view payload = event.payload();
  return Parameters(
      event.id(), event.type(), event.aggregate_type(), null_if_empty(event.aggregate_id()),
      null_if_empty(event.tenant_id()), content_type_of(event), null_if_empty(headers),
      event.is_json() ? OptionalText(payload) : std::nullopt,
      event.is_json() ? std::nullopt : std::optional(Bytes{payload}), event.occurred_at(),
      available_of(event, hold), inserted_hold(event, hold), hold == 0 ? owner : std::nullopt);
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
