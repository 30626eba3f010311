#include "store/mysql/rows.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "store/common/rows.h"
#include "store/common/shards.h"
#include "store/mysql/sql.h"

namespace outbox::mysql {
namespace {

// Rows a statement, and bytes of payloads. As text these may be twice as many, and the
// other columns come on top: at most a quarter of what the server takes.
constexpr std::size_t kManyRows = 500;
constexpr std::size_t kManyBytes = 1 << 20;

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
  Parameters parameters() const {
    return Parameters(event.id(), event.type(), event.aggregate_type(), aggregate_id(), tenant_id(),
                      content_type_of(event), null_if_empty(headers), text(), bytes(),
                      event.occurred_at(), event.available_at(), delayed_until(), hold, owner,
                      owner.has_value());
  }

  // The same as one of several rows of VALUES.
  void append_to(Built& insert) const {
    insert.sql("(").list(std::array<OptionalText, 8>{
        event.id(), event.type(), event.aggregate_type(), aggregate_id(), tenant_id(),
        content_type_of(event), null_if_empty(headers), text()});
    insert.sql(",").value(bytes()).sql(",").value(event.occurred_at());
    insert.sql(",least(").value(event.available_at());
    insert.sql(",coalesce(").value(delayed_until()).sql(",utc_timestamp(6))),");
    insert.value(hold).sql(",").value(owner).sql(owner ? ",utc_timestamp(6))" : ",NULL)");
  }

  RowRef ref(Seq seq) const { return {.seq = seq, .shard = shard_of(event), .hold = hold}; }

  OptionalText aggregate_id() const { return null_if_empty(event.aggregate_id()); }
  OptionalText tenant_id() const { return null_if_empty(event.tenant_id()); }
  OptionalText text() const {
    return event.is_json() ? OptionalText(event.payload()) : std::nullopt;
  }
  std::optional<Bytes> bytes() const {
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

// As many of the first as one statement takes.
std::size_t first_portion(std::span<const Event> events, std::size_t max_packet) {
  const std::size_t most = std::min(kManyBytes, max_packet / 4);
  std::size_t bytes = 0;
  std::size_t rows = 0;
  while (rows < events.size() && rows < kManyRows && (rows == 0 || bytes < most)) {
    bytes += events[rows++].payload().size();
  }
  return rows;
}

// By one statement. The server numbers its rows in their order, without gaps but for
// its step.
void insert(Session& session, std::span<const NewRow> rows, std::vector<RowRef>& refs) {
  if (rows.size() == 1) {
    const NewRow& row = rows.front();
    refs.push_back(row.ref(session.run(sql::kInsert, row.parameters()).insert_id()));
    return;
  }
  Built statement("insert events", session.environment().table);
  statement.sql(
      "INSERT INTO {table} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, "
      "content_type, headers, payload, payload_bytes, created_at, available_at, hold, locked_by, "
      "locked_at) VALUES ");
  for (const NewRow& row : rows) {
    if (&row != &rows.front()) statement.sql(",");
    row.append_to(statement);
  }
  Seq seq = session.run(statement).insert_id();
  const std::int64_t step = session.auto_increment_step();
  for (const NewRow& row : rows) {
    refs.push_back(row.ref(seq));
    seq += step;
  }
}

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
  const Options& store = session.environment().options;
  const Time now = store.clock->now();
  std::vector<RowRef> refs;
  refs.reserve(events.size());
  while (!events.empty()) {
    std::vector<NewRow> rows;
    for (const Event& event : events.first(first_portion(events, session.max_packet()))) {
      rows.emplace_back(event, now, null_if_empty(options.owner), *store.codec);
    }
    events = events.subspan(rows.size());
    insert(session, rows, refs);
  }
  return refs;
}

}  // namespace outbox::mysql
