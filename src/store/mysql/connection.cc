#include "store/mysql/connection.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "model/event_row.h"
#include "model/shards.h"
#include "outbox/error.h"
#include "outbox/mysql.h"
#include "store/mysql/sql.h"

namespace outbox::mysql {
namespace {

// Rows of the statements that are kept prepared. Measured with 100 rows of 500 bytes, on
// MariaDB without a disk: 1.4 ms, and 2.1 as text. Fewer rows than these go as text, so
// that few statements are needed.
constexpr std::size_t kManyRows = 100;
constexpr std::size_t kSomeRows = 20;

// Of any statement with several rows.
constexpr std::size_t kMostRows = 500;
constexpr std::size_t kManyBytes = 4 << 20;
constexpr std::size_t kHeadBytes = 1024;  // of the INSERT without its rows, at most

// That of the server's crc32().
constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
    table[byte] = crc;
  }
  return table;
}();

class Crc32 {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      crc_ = (crc_ >> 8) ^ kCrcTable[(crc_ ^ static_cast<unsigned char>(byte)) & 0xff];
    }
  }
  std::uint32_t value() const { return ~crc_; }

 private:
  std::uint32_t crc_ = ~std::uint32_t{0};
};

// One event on its way into the table.
struct NewRow {
  NewRow(const Event& its_event, Time now, OptionalText claimer, const JsonCodec& codec)
      : event(its_event),
        hold(hold_of(event, now)),
        headers(encoded_headers(event, codec)),
        owner(hold == 0 ? claimer : std::nullopt) {}

  // As kInsert takes them.
  void append_to(Parameters& values) const {
    values.add_all(event.id(), event.type(), event.aggregate_type(), aggregate_id(), tenant_id(),
                   content_type_of(event), null_if_empty(headers), text(), binary(),
                   event.occurred_at(), event.available_at(), delayed_until(), hold, owner,
                   owner.has_value());
  }

  // The same as one of several rows of VALUES.
  void append_to(Built& insert) const {
    insert.sql("(").list(std::array<OptionalText, 8>{
        event.id(), event.type(), event.aggregate_type(), aggregate_id(), tenant_id(),
        content_type_of(event), null_if_empty(headers), text()});
    insert.sql(",").value(binary()).sql(",").value(event.occurred_at());
    if (const auto delay = delay_of(event, hold)) {
      // By the server's clock, whatever the writer's says; the same moment twice.
      insert.sql(",utc_timestamp(6) + INTERVAL ").value(delay->count()).sql(" MICROSECOND,");
      insert.sql("-timestampdiff(MICROSECOND,'1970-01-01',utc_timestamp(6)) - ");
      insert.value(delay->count());
    } else if (hold == 0) {
      insert.sql(",least(").value(event.available_at()).sql(",utc_timestamp(6)),").value(hold);
    } else {
      insert.sql(",").value(event.available_at()).sql(",").value(hold);
    }
    insert.sql(",").value(owner).sql(owner ? ",utc_timestamp(6))" : ",NULL)");
  }

  // How many bytes it takes in a statement, at most: texts may become hexadecimal digits.
  std::size_t bytes() const {
    constexpr std::size_t kBesides = 512;  // numbers, times, and what is around texts
    const std::size_t texts = event.id().size() + event.type().size() +
                              event.aggregate_type().size() + event.aggregate_id().size() +
                              event.tenant_id().size() + event.content_type().size() +
                              headers.size() + event.payload().size() + owner.value_or("").size();
    return 2 * texts + kBesides;
  }

  RowRef ref(Seq seq) const { return {.seq = seq, .shard = shard_of(event), .hold = hold}; }

  OptionalText aggregate_id() const { return null_if_empty(event.aggregate_id()); }
  OptionalText tenant_id() const { return null_if_empty(event.tenant_id()); }
  OptionalText text() const {
    return event.is_json() ? OptionalText(event.payload()) : std::nullopt;
  }
  std::optional<Bytes> binary() const {
    return event.is_json() ? std::nullopt : std::optional(Bytes{event.payload()});
  }
  std::optional<Time> delayed_until() const {
    return hold == 0 ? std::nullopt : std::optional(event.available_at());
  }

  const Event& event;
  const std::int64_t hold;
  const std::string headers;
  const OptionalText owner;
};

std::vector<NewRow> new_rows(const Options& store, std::span<const Event> events,
                             const InsertOptions& options) {
  const Time now = store.clock->now();
  std::vector<NewRow> rows;
  rows.reserve(events.size());
  for (const Event& event : events) {
    rows.emplace_back(event, now, null_if_empty(options.owner), *store.codec);
  }
  return rows;
}

// How many of these rows one statement takes.
std::size_t how_many_fit(std::span<const NewRow> rows, std::size_t max_packet) {
  const std::size_t most = std::min(kManyBytes, max_packet);
  std::size_t bytes = kHeadBytes;
  std::size_t fit = 0;
  while (fit < rows.size() && fit < kMostRows) {
    bytes += rows[fit].bytes();
    if (bytes > most && fit > 0) break;
    ++fit;
  }
  return fit;
}

void append_insert(Built& statement, std::span<const NewRow> rows) {
  statement.sql(sql::kInsertHead);
  for (const NewRow& row : rows) {
    if (&row != &rows.front()) statement.sql(",");
    row.append_to(statement);
  }
}

// Inserts rows with as few statements as the server allows, all of them or none.
// Used by one thread at a time.
class Insertion {
 public:
  Insertion(Session& session, std::span<const NewRow> rows) : session_(session), rows_(rows) {
    refs_.reserve(rows.size());
  }

  std::vector<RowRef> run() {
    if (rows_.empty()) return {};
    if (next_portion() == rows_.size()) {
      insert(rows_);  // a statement that fails leaves nothing by itself
      return std::move(refs_);
    }
    const std::string savepoint = quoted_name("outbox insert");
    session_.run_text("SAVEPOINT " + savepoint, kPurpose);
    try {
      while (refs_.size() < rows_.size()) insert(rows_.subspan(refs_.size(), next_portion()));
      session_.run_text("RELEASE SAVEPOINT " + savepoint, kPurpose);
    } catch (...) {
      session_.undo("ROLLBACK TO SAVEPOINT " + savepoint);
      throw;
    }
    return std::move(refs_);
  }

 private:
  static constexpr std::string_view kPurpose = "insert events";

  // How many of the rows that are left the next statement takes.
  std::size_t next_portion() const {
    const std::size_t fit = how_many_fit(rows_.subspan(refs_.size()), session_.max_packet());
    if (!session_.prepares()) return fit;
    return fit >= kManyRows ? kManyRows : fit >= kSomeRows ? kSomeRows : fit;
  }

  // By one statement. The server numbers its rows in their order, without gaps but for
  // its step.
  void insert(std::span<const NewRow> rows) {
    Seq seq = send(rows).insert_id();
    const std::int64_t step = rows.size() == 1 ? 0 : session_.auto_increment_step();
    for (const NewRow& row : rows) {
      refs_.push_back(row.ref(seq));
      seq += step;
    }
  }

  Result send(std::span<const NewRow> rows) {
    const bool delays = std::any_of(rows.begin(), rows.end(), [](const NewRow& row) {
      return delay_of(row.event, row.hold).has_value();
    });
    if (delays) return send_as_text(rows);
    if (rows.size() == 1) return session_.run(sql::kInsert<1>, parameters_of(rows));
    if (session_.prepares() && rows.size() == kManyRows) {
      return session_.run(sql::kInsert<kManyRows>, parameters_of(rows));
    }
    if (session_.prepares() && rows.size() == kSomeRows) {
      return session_.run(sql::kInsert<kSomeRows>, parameters_of(rows));
    }
    return send_as_text(rows);
  }

  Result send_as_text(std::span<const NewRow> rows) {
    Built statement(kPurpose, config_of(session_));
    append_insert(statement, rows);
    return session_.run(statement);
  }

  static Parameters parameters_of(std::span<const NewRow> rows) {
    Parameters parameters;
    parameters.reserve(rows.size() * sql::kInsertParameters);
    for (const NewRow& row : rows) row.append_to(parameters);
    return parameters;
  }

  Session& session_;
  const std::span<const NewRow> rows_;
  std::vector<RowRef> refs_;
};

}  // namespace

int shard_of(const Event& event) {
  Crc32 crc;
  crc.add(event.aggregate_type());
  crc.add("\x1F");
  crc.add(event.aggregate_id().empty() ? event.id() : event.aggregate_id());
  return static_cast<int>(crc.value() % kShards);
}

std::vector<RowRef> insert_rows(Session& session, std::span<const Event> events,
                                const InsertOptions& options) {
  const std::vector<NewRow> rows = new_rows(config_of(session).options, events, options);
  return Insertion(session, rows).run();
}

InsertText insert_text(const StoreConfig& config, std::span<const Event> events,
                       const InsertOptions& options) {
  const std::vector<NewRow> all =
      new_rows(config.options, events.first(std::min(events.size(), kMostRows)), options);
  const auto rows = std::span(all).first(how_many_fit(all, config.max_packet));
  Built statement("insert events", config, Built::Texts::ascii);
  append_insert(statement, rows);
  InsertText text{.sql = statement.text()};
  for (const NewRow& row : rows) text.refs.push_back(row.ref(0));
  return text;
}

namespace {

using std::chrono::steady_clock;

// Whatever the session's settings are: BEGIN opens a block with sql_mode ORACLE, and
// completion_type may begin the next transaction at once, or close the connection.
constexpr std::string_view kBegin = "START TRANSACTION";
constexpr std::string_view kCommit = "COMMIT AND NO CHAIN NO RELEASE";
constexpr std::string_view kRollback = "ROLLBACK AND NO CHAIN NO RELEASE";

// Less than the shortest limit of a call; a connection that was closed fails sooner.
constexpr std::chrono::seconds kNoticedAtOnce{1};

}  // namespace

PooledConnection::PooledConnection(PoolHandle handle) : handle_(std::move(handle)) {}

PooledConnection::~PooledConnection() {
  // If this fails, the pool closes the connection, and the server rolls back.
  if (began_ && getpid() == config_of(*handle_).pid && handle_->healthy()) {
    handle_->session().try_text(kRollback);
  }
}

// A connection that was lost took its transaction along: a new one must not pass
// for it.
Session& PooledConnection::session() {
  if (began_ && handle_->lost()) throw_lost();
  if (began_ && rolled_back_) throw_rolled_back();
  return handle_->session();
}

void PooledConnection::throw_lost() const {
  failure_.throw_rolled_back("the connection was lost (" + where() +
                             "): nothing of the transaction happened");
}

void PooledConnection::throw_rolled_back() const {
  failure_.throw_rolled_back("the transaction was rolled back (" + where() +
                             "): a statement in it had failed");
}

void PooledConnection::check_in_transaction(const char* call) const {
  if (began_) return;
  throw MisuseError(std::string(call) + " needs an open transaction (" + where() +
                    "): call begin() first");
}

void PooledConnection::begin() {
  if (began_) {
    throw MisuseError("begin() in an open transaction (" + where() +
                      "): commit or roll back first, or use a savepoint");
  }
  constexpr std::string_view kPurpose = "begin a transaction";
  const auto start = steady_clock::now();
  try {
    session().run_text(kBegin, kPurpose);
  } catch (const RetryableError&) {
    // Nothing has been done on it: if the connection was lost while it was idle,
    // another one will do. Not if the server was silent for as long as it may be.
    if (!handle_->lost() || steady_clock::now() - start >= kNoticedAtOnce) throw;
    session().run_text(kBegin, kPurpose);
  }
  session().forget_failure();
  began_ = true;
  rolled_back_ = false;
  failure_.clear();
}

void PooledConnection::commit() {
  check_in_transaction("commit()");
  began_ = false;
  if (!handle_->healthy()) throw_lost();
  Session& current = handle_->session();
  if (rolled_back_) {
    current.try_text(kRollback);
    throw_rolled_back();
  }
  try {
    current.run_text(kCommit, "commit a transaction");
  } catch (const Error& error) {
    if (current.last_failure().undoes_commit()) {
      current.undo(kRollback);
      throw;
    }
    const bool lost = current.last_failure().lost_connection();
    const std::string reason = error.what();
    handle_->drop();  // whatever state it is in
    throw OutcomeUnknownError(std::string(lost ? "the connection was lost during COMMIT ("
                                               : "the outcome of COMMIT is unknown (") +
                              where() + "): the transaction may have happened; ask the database (" +
                              reason + ")");
  }
}

void PooledConnection::rollback() {
  check_in_transaction("rollback()");
  began_ = false;
  // If it fails, the connection is gone, and the transaction with it.
  if (handle_->healthy()) handle_->session().try_text(kRollback);
}

void PooledConnection::savepoint(const std::string& name) {
  check_in_transaction("savepoint()");
  watched([&](Session& on) {
    return on.run_text("SAVEPOINT " + quoted_name(name), "set savepoint '" + name + "'");
  });
}

void PooledConnection::release(const std::string& name) {
  check_in_transaction("release()");
  watched([&](Session& on) {
    return on.run_text("RELEASE SAVEPOINT " + quoted_name(name),
                       "release savepoint '" + name + "'");
  });
}

void PooledConnection::rollback_to(const std::string& name) {
  check_in_transaction("rollback_to()");
  watched([&](Session& on) {
    return on.run_text("ROLLBACK TO SAVEPOINT " + quoted_name(name),
                       "roll back to savepoint '" + name + "'");
  });
}

std::int64_t PooledConnection::execute(std::string_view sql, std::span<const Parameter> values) {
  return watched([&](Session& on) { return on.execute(sql, values); });
}

std::vector<ResultRow> PooledConnection::query(std::string_view sql,
                                               std::span<const Parameter> values) {
  return watched([&](Session& on) { return on.query(sql, values); });
}

std::vector<RowRef> PooledConnection::insert(std::span<const Event> events,
                                             const InsertOptions& options) {
  check_in_transaction("insert()");
  std::vector<RowRef> rows = watched([&](Session& on) { return insert_rows(on, events, options); });
  if (options.told != nullptr) config_of(*handle_).own_numbers.add(options.told, rows);
  return rows;
}

st_mysql* handle(Connection& connection) {
  if (auto* pooled = dynamic_cast<PooledConnection*>(&connection)) return pooled->handle();
  throw MisuseError("mysql::handle() needs a connection from the pool of a MySQL store");
}

}  // namespace outbox::mysql
