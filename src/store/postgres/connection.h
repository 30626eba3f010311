// What inserts events, and the connection that a user's transaction runs on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/postgres/session.h"
#include "model/event_row.h"
#include "outbox/event.h"
#include "outbox/spi/json_codec.h"
#include "outbox/spi/store.h"
#include "store/common/connection.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

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

// See hold_of().
inline std::vector<std::int64_t> holds_of(std::span<const Event> events, Time now) {
  std::vector<std::int64_t> holds;
  for (const Event& event : events) holds.push_back(hold_of(event, now));
  return holds;
}

// What the statements take for a row that waits for a delay: the delay as a time since 1970,
// and a hold that no new row has. The server makes both from its own time.
inline Time available_of(const Event& event, std::int64_t hold) {
  const auto delay = delay_of(event, hold);
  return delay ? Time{*delay} : event.available_at();
}
inline std::int64_t inserted_hold(const Event& event, std::int64_t hold) {
  return delay_of(event, hold) ? 1 : hold;
}

// The columns of several events as arrays, and the owner: what the statements for many
// take. `Values` is made of them.
template <class Values>
Values columns_of(std::span<const Event> events, std::span<const std::int64_t> holds,
                  OptionalText owner, const JsonCodec& codec) {
  std::vector<OptionalText> ids, types, aggregate_types, aggregate_ids, tenants, content_types,
      headers, payloads;
  std::vector<std::optional<Bytes>> payload_bytes;
  std::vector<std::int64_t> occurred, available, inserted;
  std::vector<std::string> encoded;  // what `headers` points to
  encoded.reserve(events.size());
  for (const Event& event : events) {
    encoded.push_back(encoded_headers(event, codec));
    ids.emplace_back(event.id());
    types.emplace_back(event.type());
    aggregate_types.emplace_back(event.aggregate_type());
    aggregate_ids.push_back(null_if_empty(event.aggregate_id()));
    tenants.push_back(null_if_empty(event.tenant_id()));
    content_types.push_back(content_type_of(event));
    headers.push_back(null_if_empty(encoded.back()));
    const std::string_view payload = event.payload();
    payloads.push_back(event.is_json() ? OptionalText(payload) : std::nullopt);
    payload_bytes.push_back(event.is_json() ? std::nullopt : std::optional(Bytes{payload}));
    occurred.push_back(micros(event.occurred_at()));
    available.push_back(micros(available_of(event, holds[available.size()])));
    inserted.push_back(inserted_hold(event, holds[inserted.size()]));
  }
  return Values(ids, types, aggregate_types, aggregate_ids, tenants, content_types, headers,
                payloads, payload_bytes, occurred, available, inserted, owner);
}

class Notifier;

// A connection from the pool. Used by one thread at a time.
class PooledConnection final : public Connection {
 public:
  // `notifier`: null if nobody is to be told of commits.
  PooledConnection(PoolHandle handle, std::shared_ptr<Notifier> notifier);
  ~PooledConnection() override;
  PooledConnection(const PooledConnection&) = delete;
  PooledConnection& operator=(const PooledConnection&) = delete;

  void begin() override;
  void commit() override;
  void rollback() override;
  bool in_transaction() const override { return phase_ != Phase::none; }

  void savepoint(const std::string& name) override;
  void release(const std::string& name) override;
  void rollback_to(const std::string& name) override;

  std::int64_t execute(std::string_view sql, std::span<const Parameter> values) override;
  std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) override;
  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override;
  std::vector<RowRef> deferred_rows() const override { return refs_; }

  PGconn* handle();

 private:
  // The server hears of a transaction with its first statement: that saves a round
  // trip.
  enum class Phase { none, announced, open };

  const std::string& where() const { return config_of(*handle_).description; }
  template <class Use>
  auto use_session(const Use& use);
  template <class Use>
  auto use_new_or_open(const Use& use);
  void script(const std::string& text, const std::string& purpose);
  void end_transaction() noexcept;
  [[noreturn]] void throw_lost() const;
  void check_in_transaction(const char* call);
  bool commit_with_events();
  void insert_now();

  const PoolHandle handle_;
  const std::shared_ptr<Notifier> notifier_;
  Phase phase_ = Phase::none;
  bool inserted_ = false;        // events, in this transaction
  const Watch* told_ = nullptr;  // by the writer, of all of them
  FirstFailure failure_;         // that the transaction cannot be committed after

  // With insert_at_commit: the inserts that wait; the rows of deferred inserts; and
  // how many of those there were when a savepoint was set.
  struct SavepointMark {
    std::string savepoint;
    std::size_t refs;
  };
  std::vector<Insertion> waiting_;
  std::vector<RowRef> refs_;
  std::vector<SavepointMark> savepoints_;
};

}  // namespace outbox::postgres
