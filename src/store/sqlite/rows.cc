#include "store/sqlite/rows.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/quote.h"
#include "base/time_text.h"
#include "outbox/error.h"
#include "store/sqlite/admin_sql.h"
#include "store/sqlite/reader.h"
#include "store/sqlite/sql.h"

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

constexpr std::chrono::seconds kBetweenLooks{10};

// Numbers as they are, of anything else what it is: it may be large.
std::string shown(const Run& run, int column) {
  switch (run.type(column)) {
    case SQLITE_NULL:
      return "NULL";
    case SQLITE_TEXT:
      return "a TEXT";
    case SQLITE_BLOB:
      return "a BLOB";
    default:
      return std::string(run.text(column));
  }
}

std::string first_of_them(Database& database) {
  Run run(database[sql::kFirstBroken]);
  if (!run.step()) return {};
  return ", the first is event " + quote(run.text(0)) + " (status " + shown(run, 1) + ", hold " +
         shown(run, 2) + ")";
}

}  // namespace

std::int64_t count_broken_rows(Database& database) {
  return database.integer(sql::kCountBroken).value_or(0);
}

std::string contradiction(const Run& run, int status_column, int hold_column) {
  const bool known = run.type(status_column) == SQLITE_INTEGER && run.integer(status_column) >= 0 &&
                     run.integer(status_column) <= 3;
  if (!known) return "status is " + shown(run, status_column) + ", none of 0 to 3";
  const bool null = run.is_null(hold_column);
  const bool integer = run.type(hold_column) == SQLITE_INTEGER;
  bool sound = integer;
  switch (static_cast<Status>(run.integer(status_column))) {
    case Status::pending:
    case Status::retry:
      break;
    case Status::done:
      sound = null;
      break;
    case Status::dead:
      sound = null || (integer && run.integer(hold_column) > 0);
      break;
  }
  if (sound) return {};
  return "status " + shown(run, status_column) + " and hold " + shown(run, hold_column) +
         " contradict each other";
}

void BrokenRowsReport::look(Database& database) {
  const Clock::Steady now = config_of(database).options.clock->steady();
  if (now < next_look_) return;
  next_look_ = now + kBetweenLooks;
  try {
    report(database);
  } catch (const MisuseError& error) {
    // Somebody dropped the index. That is no reason not to deliver.
    next_look_ = Clock::Steady::max();
    config_of(database).options.log(
        {LogLevel::warning, "index_missing", error.what(), {{"error", error.what()}}});
  }
}

void BrokenRowsReport::report(Database& database) {
  const std::int64_t count = count_broken_rows(database);
  if (count > reported_) {
    config_of(database).options.log(
        {LogLevel::error,
         "rows_contradictory",
         std::to_string(count) +
             (count == 1 ? " row contradicts itself and is not delivered"
                         : " rows contradict themselves and are not delivered") +
             first_of_them(database) + "; run: outbox doctor --repair (" +
             config_of(database).description + ")",
         {{"rows", count}, {"store", config_of(database).description}}});
  }
  reported_ = count;
}

}  // namespace outbox::sqlite
