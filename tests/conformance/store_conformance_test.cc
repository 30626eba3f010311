#include "store_conformance.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string_view>

#include "database.h"

namespace outbox::conformance {

bool Backend::insert_raw(Store& store, const RawRow& row) const {
  const std::optional<SqlWords> words = sql_words();
  if (!words) return false;
  const auto connection = store.connect();
  connection->begin();
  connection->execute("INSERT INTO " + words->table +
                          " (event_id, event_type, headers, payload) VALUES (?, 'Raw', ?, '{}')",
                      std::vector<Parameter>{row.id, row.headers ? Value{*row.headers} : nullptr});
  connection->commit();
  return true;
}

Store& StoreTest::open(const Wishes& wishes) {
  if (store_) throw std::logic_error("the test has opened its store already");
  store_ = backend_->open(wishes);
  return *store_;
}

Event StoreTest::event(EventFields fields) {
  if (fields.type.empty()) fields.type = "Happened";
  if (fields.payload.kind() == Payload::Kind::none) fields.payload = json("{}");
  if (fields.occurred_at == Time{}) fields.occurred_at = now();
  if (fields.available_at == Time{}) fields.available_at = fields.occurred_at;
  return Event::restore(std::move(fields));
}

std::vector<RowRef> StoreTest::write(const std::vector<Event>& events,
                                     const InsertOptions& options) {
  const auto connection = store().connect();
  connection->begin();
  std::vector<RowRef> refs = connection->insert(events, options);
  connection->commit();
  const std::vector<RowRef> deferred_rows = connection->deferred_rows();
  return deferred_rows.empty() ? refs : deferred_rows;
}

std::vector<RowRef> StoreTest::write_aggregate(const std::string& aggregate_id,
                                               const std::vector<std::string>& ids) {
  std::vector<Event> events;
  for (const std::string& id : ids) {
    events.push_back(event({.id = id, .aggregate_type = "Order", .aggregate_id = aggregate_id}));
  }
  return write(events);
}

Owner StoreTest::own_everything(InstanceOptions options) {
  Owner owner{.instance = store().join(std::move(options)), .lease = {}};
  owner.lease = owner->renew();
  EXPECT_EQ(owner.shards().size(), static_cast<std::size_t>(capabilities().shards));
  return owner;
}

std::vector<Row> StoreTest::ready(const Owner& owner) {
  owner->rewind(0);
  std::vector<Row> rows = owner->ready(owner.shards(), 0, 100'000).rows;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.ref.seq < b.ref.seq; });
  return rows;
}

EventRecord StoreTest::record(const std::string& id) {
  std::optional<EventRecord> found = store().admin().find(id);
  if (!found) throw std::runtime_error("there is no event \"" + id + "\"");
  return *std::move(found);
}

StatusUpdate StoreTest::update(const std::string& id, StatusUpdate::Kind kind) {
  return {.row = ref(id), .event_id = id, .kind = kind};
}

StatusUpdate StoreTest::dead(const std::string& id, const std::string& error, LaneKey lane) {
  StatusUpdate dead = update(id, StatusUpdate::Kind::dead);
  dead.lane = lane;
  dead.attempts = 10;
  dead.error = error;
  return dead;
}

UpdateResult Owner::apply(std::span<const StatusUpdate> updates) const {
  if (!instance->takes_unread()) {
    instance->ready(lease.shards, 0, 100'000);
    instance->ready(lease.draining, 0, 100'000);
  }
  UpdateResult result = instance->apply(lease.epoch, updates);
  result.fenced = result.fenced || instance->flush(lease.epoch, true).fenced;
  return result;
}

void StoreTest::hold_delayed(const Owner& owner) {
  std::vector<StatusUpdate> updates;
  for (const Row& row : ready(owner)) {
    if (row.available_in <= 0us) continue;
    updates.push_back(
        {.row = row.ref, .event_id = row.event.id(), .kind = StatusUpdate::Kind::hold});
  }
  if (!updates.empty()) apply(owner, updates);
}

void StoreTest::apply(const Owner& owner, const std::vector<StatusUpdate>& updates) {
  const UpdateResult result = owner.apply(updates);
  EXPECT_FALSE(result.fenced);
  EXPECT_EQ(result.stale, std::vector<std::size_t>{});
}

void StoreTest::expect_time(std::chrono::microseconds actual, std::chrono::microseconds expected) {
  EXPECT_LE(std::chrono::abs(actual - expected), backend().clock_error())
      << actual.count() << " us, expected " << expected.count() << " us";
}

void StoreTest::expect_due_in(const EventRecord& record, std::chrono::microseconds delay) {
  ASSERT_TRUE(record.hold);
  ASSERT_LT(*record.hold, 0);
  expect_time(std::chrono::microseconds{-*record.hold}, now().time_since_epoch() + delay);
  expect_time(record.row.available_in, delay);
}

void DatabaseTest::SetUp() {
  StoreTest::SetUp();
  if (IsSkipped()) return;
  ASSERT_NE(backend().database(), nullptr);
}

OwnConnection& DatabaseTest::onlooker() {
  if (!onlooker_) onlooker_ = database().connect(database().url());
  return *onlooker_;
}

void expect_same(const EventRecord& actual, const EventRecord& expected) {
  EXPECT_EQ(actual.row.status, expected.row.status);
  EXPECT_EQ(actual.row.attempts, expected.row.attempts);
  EXPECT_EQ(actual.row.crashes, expected.row.crashes);
  EXPECT_EQ(actual.row.progress, expected.row.progress);
  EXPECT_EQ(actual.hold, expected.hold);
  EXPECT_EQ(actual.last_error, expected.last_error);
  EXPECT_EQ(actual.locked_by, expected.locked_by);
}

std::string for_table(std::string sql, const std::string& table) {
  constexpr std::string_view kPlaceholder = "{table}";
  for (auto at = sql.find(kPlaceholder); at != std::string::npos; at = sql.find(kPlaceholder)) {
    sql.replace(at, kPlaceholder.size(), table);
  }
  return sql;
}

std::vector<std::string> ids(const std::vector<Row>& rows) {
  std::vector<std::string> result;
  for (const Row& row : rows) result.push_back(row.event.id());
  return result;
}

std::vector<std::string> ids(const std::vector<EventRecord>& records) {
  std::vector<std::string> result;
  for (const EventRecord& record : records) result.push_back(record.row.event.id());
  return result;
}

std::uint64_t test_seed() {
  const char* given = std::getenv("OUTBOX_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

}  // namespace outbox::conformance
