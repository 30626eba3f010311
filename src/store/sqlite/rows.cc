#include "store/sqlite/rows.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/quote.h"
#include "base/time_text.h"
#include "outbox/error.h"
#include "store/sqlite/broken_rows.h"
#include "store/sqlite/sql.h"
#include "store/sqlite/waits.h"

namespace outbox::sqlite {
namespace {

// As kRowColumnNames lists them.
enum Column {
  kSeq,
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
  kLockedBy,
  kLockedAt,
  kContentType,
  kProgress,
  kHeaders,
  kPayload,
};
static_assert(kHold == kHoldColumn && kPayload + 1 == kRowColumns);

// Storage classes that the columns do not enforce: any program may have
// written the row.
const char* name_of(int type) {
  switch (type) {
    case SQLITE_INTEGER:
      return "INTEGER";
    case SQLITE_FLOAT:
      return "REAL";
    case SQLITE_TEXT:
      return "TEXT";
    case SQLITE_BLOB:
      return "BLOB";
    default:
      return "NULL";
  }
}

Time decode_time(const Run& run, Column column, const char* name, std::string& defect) {
  if (run.type(column) != SQLITE_INTEGER) {
    add_defect(defect, std::string(name) + " is stored as " + name_of(run.type(column)) +
                           ", not as an INTEGER of microseconds since 1970");
    return {};
  }
  const std::int64_t stored = run.integer(column);
  const Time time = stored_time(stored);
  if (micros(time) != stored) {
    add_defect(defect, std::string(name) + " is " + std::to_string(stored) +
                           " microseconds since 1970, not between the years 1000 and 9999");
  }
  return time;
}

void check_payload(int type, std::string& defect) {
  if (type == SQLITE_TEXT || type == SQLITE_BLOB) return;
  add_defect(defect, std::string("the payload is stored as ") + name_of(type) +
                         ", not as TEXT (JSON) or BLOB (bytes)");
}

}  // namespace

Row decode_row(const Run& run, const JsonCodec& codec, Time now, bool with_payload) {
  std::string defect;
  const int payload_type = run.type(kPayload);
  check_payload(payload_type, defect);
  const std::string wrong = contradiction(run, kStatus, kHold);
  if (!wrong.empty()) add_defect(defect, wrong);
  const bool is_json = payload_type == SQLITE_TEXT;
  const Time created_at = decode_time(run, kCreatedAt, "created_at", defect);
  const Time available_at = decode_time(run, kAvailableAt, "available_at", defect);
  std::string_view payload;
  if (with_payload) payload = is_json ? run.text(kPayload) : run.bytes(kPayload);
  Row row = decode({.ref = {.seq = run.integer(kSeq), .shard = 0, .hold = run.integer(kHold)},
                    .event_id = run.text(kEventId),
                    .event_type = run.text(kEventType),
                    .aggregate_type = run.text(kAggregateType),
                    .aggregate_id = run.text(kAggregateId),
                    .tenant_id = run.text(kTenantId),
                    .status = run.integer(kStatus),
                    .attempts = run.integer(kAttempts),
                    .crashes = run.integer(kCrashes),
                    .available_at = available_at,
                    .created_at = created_at,
                    .content_type = run.optional_text(kContentType),
                    .progress = run.text(kProgress),
                    .headers = run.text(kHeaders),
                    .is_json = is_json,
                    .payload = payload,
                    .read_at = now,
                    .defect = std::move(defect)},
                   codec);
  // In a lane only what failed or was deferred waits, however far off its time seems.
  if (row.ref.hold > 0 && row.defect.empty()) {
    row.available_in = Waits::left(available_at, waits_since(run, kLockedBy, kLockedAt), now);
  }
  return row;
}

std::optional<Time> waits_since(const Run& run, int locked_by_column, int locked_at_column) {
  if (!run.is_null(locked_by_column) || run.is_null(locked_at_column)) return std::nullopt;
  return stored_time(run.integer(locked_at_column));
}

Time stored_time(std::int64_t micros_since_1970) {
  return std::clamp(time_of(micros_since_1970), kEarliestTime, kLatestTime);
}

bool decode_rows(Run& run, const StoreConfig& config, std::size_t limit, ByteBudget& budget,
                 std::vector<Row>& rows) {
  while (run.step()) {
    if (rows.size() >= limit || budget.spent()) return true;
    const bool taken = budget.taken(run.text(kEventId));
    rows.push_back(decode_row(run, *config.options.codec, config.now(), !taken));
    rows.back().without_payload = taken;
    budget.spend(rows.back().event.payload().size());
  }
  return false;
}

std::string seq_list(std::span<const Seq> seqs) {
  std::string list = "[";
  for (const Seq seq : seqs) {
    if (list.size() > 1) list.push_back(',');
    list.append(std::to_string(seq));
  }
  list.push_back(']');
  return list;
}

namespace {

// Rows a statement. Measured with 200 bytes a row: 3.5 us a row one by one, 2.4
// by eight, 2.1 by sixty-four; more gains nothing.
constexpr std::size_t kManyRows = 64;
constexpr std::size_t kSomeRows = 8;

// Inserts events with statements of few fixed sizes, which stay prepared.
// Used by one thread at a time.
class Insertion {
 public:
  Insertion(Session& session, const InsertOptions& options)
      : session_(session), owner_(null_if_empty(options.owner)), now_(config_of(session).now()) {}

  std::vector<RowRef> run(std::span<const Event> events) {
    refs_.reserve(events.size());
    try {
      while (events.size() >= kManyRows) take<kManyRows>(events);
      while (events.size() >= kSomeRows) take<kSomeRows>(events);
      while (!events.empty()) take<1>(events);
    } catch (...) {
      take_back();
      throw;
    }
    return std::move(refs_);
  }

 private:
  template <std::size_t Rows>
  void take(std::span<const Event>& events) {
    insert(session_[sql::kInsert<Rows>], events.first(Rows));
    events = events.subspan(Rows);
  }

  void insert(Statement& statement, std::span<const Event> events) {
    struct Prepared {
      std::string headers;
      std::int64_t hold;
    };
    std::vector<Prepared> prepared;  // must outlive the step
    prepared.reserve(events.size());
    Run run(statement);
    int parameter = 0;
    for (const Event& event : events) {
      prepared.push_back({.headers = encoded_headers(event, *config_of(session_).options.codec),
                          .hold = hold_of(event, now_)});
      bind(run, parameter, event, prepared.back().headers, prepared.back().hold);
      parameter += sql::kInsertParameters;
    }
    if (run.try_step() != SQLITE_DONE) fail(run, events);
    // One writer at a time: the rows of one statement have consecutive numbers.
    Seq seq = sqlite3_last_insert_rowid(session_.handle()) - static_cast<Seq>(events.size());
    for (const Prepared& row : prepared) {
      refs_.push_back({.seq = ++seq, .shard = 0, .hold = row.hold});
    }
  }

  void bind(Run& run, int at, const Event& event, const std::string& headers, std::int64_t hold) {
    run.bind(++at, event.id());
    run.bind(++at, event.type());
    run.bind(++at, event.aggregate_type());
    run.bind(++at, null_if_empty(event.aggregate_id()));
    run.bind(++at, null_if_empty(event.tenant_id()));
    run.bind(++at, content_type_of(event));
    run.bind(++at, null_if_empty(headers));
    if (event.is_json()) {
      run.bind(++at, event.payload());
    } else {
      run.bind(++at, Bytes{event.payload()});
    }
    run.bind(++at, micros(event.occurred_at()));
    run.bind(++at, micros(event.available_at()));
    run.bind(++at, hold);
    const auto owner = hold == 0 ? owner_ : std::nullopt;
    const bool delayed = hold != 0 && event.delay();
    run.bind(++at, owner);
    run.bind(++at, owner || delayed ? std::optional(micros(now_)) : std::nullopt);
  }

  [[noreturn]] void fail(Run& run, std::span<const Event> events) {
    try {
      run.fail();
    } catch (const PermanentError&) {
      if (const Event* culprit = find_duplicate(events)) {
        throw MisuseError("an event with the id " + quote(culprit->id()) + " is already in " +
                          config_of(session_).description +
                          ": leave the id out, or make it unique");
      }
      throw;
    }
  }

  // The first event whose id is in the table or among those before it.
  const Event* find_duplicate(std::span<const Event> events) {
    std::unordered_set<std::string_view> seen;
    for (const Event& event : events) {
      if (!seen.insert(event.id()).second) return &event;
      if (Run(session_[sql::kExists], event.id()).step()) return &event;
    }
    return nullptr;
  }

  // What earlier statements of this call inserted goes again, so that a user
  // who catches the error and commits does not commit half a list.
  void take_back() noexcept {
    // SQLite may have rolled back by itself; the numbers may be another's then.
    if (refs_.empty() || !session_.in_transaction()) return;
    try {
      Run(session_[sql::kUninsert], refs_.front().seq, refs_.back().seq).finish();
    } catch (const std::exception&) {
      // Then nothing of the transaction may remain.
      sqlite3_exec(session_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
  }

  Session& session_;
  const OptionalText owner_;
  const Time now_;
  std::vector<RowRef> refs_;
};

}  // namespace

std::vector<RowRef> insert_rows(Session& session, std::span<const Event> events,
                                const InsertOptions& options) {
  return Insertion(session, options).run(events);
}

}  // namespace outbox::sqlite
