// Rows to events, and rows whose status and hold contradict each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/sqlite/statement.h"
#include "model/event_row.h"
#include "outbox/event.h"
#include "outbox/spi/json_codec.h"
#include "outbox/spi/store.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// What decode_row() reads, in this order: `{columns}` in sql.h. What a statement
// selects beside them comes behind.
inline constexpr std::string_view kRowColumnNames =
    "seq, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status, attempts,"
    " crashes, available_at, created_at, locked_by, locked_at, content_type, progress, headers,"
    " payload";
inline constexpr int kRowColumns = 18;
inline constexpr int kHoldColumn = 1;

// The row that the run stands on. Contents that cannot be decoded make a
// defect, never an error.
Row decode_row(const Run& run, const JsonCodec& codec, Time now, bool with_payload = true);

// A time from the table, within the bounds of what the library writes: another
// program may have stored any number, and reckoning with it must not overflow.
Time stored_time(std::int64_t micros_since_1970);

// Since when the row that the run stands on waits for a delay: its locked_at, if nobody has
// claimed it.
std::optional<Time> waits_since(const Run& run, int locked_by_column, int locked_at_column);

// Appends the rows of a run up to a total of `limit`, or as far as the budget goes; true
// if there was one more. The statement's own LIMIT must allow for that one.
//
// The clock is read after each step: the first one takes the snapshot, and a row
// in it that was available when it was committed is available now. Read before,
// the time may lie before the commit, and the row would pass for a delayed one.
bool decode_rows(Run& run, const StoreConfig& config, std::size_t limit, ByteBudget& budget,
                 std::vector<Row>& rows);

// The numbers as a JSON array: how a statement takes any number of rows.
std::string seq_list(std::span<const Seq> seqs);

// Any program may edit the table, and triggers can be switched off. Such a row is in no
// read of the engine's, so that it stops nobody but itself; it is counted and reported.
// Costs as much as there are of them, whatever the size of the table.
std::int64_t count_broken_rows(Database& database);

// What is wrong with the row that the run stands on; empty if nothing.
std::string contradiction(const Run& run, int status_column, int hold_column);

// Tells the log when there are more than before. Used by one thread at a time.
class BrokenRowsReport {
 public:
  // At most now and then, by the injected steady clock.
  void look(Database& database);

  // At once.
  void report(Database& database);

 private:
  Clock::Steady next_look_ = Clock::Steady::min();
  std::int64_t reported_ = 0;
};

}  // namespace outbox::sqlite
