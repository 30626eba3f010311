#include "store/sqlite/updates.h"

#include "store/sqlite/test_support.h"
#include "support/sqlite_writes.h"

namespace outbox::sqlite {
namespace {

constexpr StatusUpdate::Kind kKinds[] = {StatusUpdate::Kind::done,   StatusUpdate::Kind::retry,
                                         StatusUpdate::Kind::defer,  StatusUpdate::Kind::dead,
                                         StatusUpdate::Kind::hold,   StatusUpdate::Kind::crashes,
                                         StatusUpdate::Kind::unblock};

class UpdatesTest : public SqliteTest {
 protected:
  // Gives the number of an event to another one, as an edit by hand or another file does.
  void replace(const std::string& id, const std::string& by, const std::string& status = "0",
               const std::string& hold = "0") const {
    const std::string seq = db_.value("SELECT seq FROM outbox_event WHERE event_id = '" + id + "'");
    db_.run("DELETE FROM outbox_event WHERE event_id = '" + id + "'");
    db_.run("INSERT INTO outbox_event (seq, event_id, event_type, payload, status, hold) VALUES (" +
            seq + ", '" + by + "', 'T', '{}', " + status + ", " + hold + ")");
  }
  std::string row(const std::string& id) const {
    return db_.value(
        "SELECT quote(status) || quote(hold) || quote(crashes) || quote(attempts) || "
        "quote(available_at) || quote(done_at) FROM outbox_event WHERE event_id = '" +
        id + "'");
  }

  test::SqliteWrites writes_;
  const std::shared_ptr<Store> store_ = open_store();
  const ForeignConnection db_{path()};
};

// Where the lock file does not keep the two apart, because somebody deleted it.
TEST_F(UpdatesTest, ATakeOverWhileAnUpdateWaitsForTheLockFencesIt) {
  const auto instance = store_->join({});
  const std::int64_t epoch = instance->renew().epoch;
  for (const StatusUpdate::Kind kind : kKinds) {
    const std::string id = "e" + std::to_string(static_cast<int>(kind));
    const bool unblocks = kind == StatusUpdate::Kind::unblock;
    write_event(*store_, simple_event(id));
    if (unblocks) replace(id, id, "3", "5");
    const std::string before = row(id);
    db_.run("UPDATE outbox_event_instance SET epoch = " + std::to_string(epoch));
    writes_.before_next([&] { db_.run("UPDATE outbox_event_instance SET epoch = epoch + 1"); });
    const StatusUpdate late{.row = store_->admin().find(id)->row.ref,
                            .event_id = id,
                            .kind = kind,
                            .lane = 7,
                            .attempts = 3,
                            .crashes = 3,
                            .delay = 1s};
    EXPECT_TRUE(instance->apply(epoch, {&late, 1}).fenced) << id;
    EXPECT_TRUE(writes_.came());
    EXPECT_EQ(row(id), before) << id;
  }
}

// An id that another program stored as a BLOB was compared with a text, and never found.
TEST_F(UpdatesTest, TheIdMayBeOfAnotherStorageClass) {
  const auto instance = store_->join({});
  const std::int64_t epoch = instance->renew().epoch;
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload) VALUES (x'6964', 'T', '{}'),"
      " (17, 'T', '{}'), ('', 'T', '{}')");
  std::vector<StatusUpdate> updates;
  const int shard[] = {0};
  for (const Row& row : instance->ready(shard, 0, 10).rows) {
    updates.push_back({.row = row.ref, .event_id = row.event.id()});
  }
  ASSERT_EQ(updates.size(), 3u);
  EXPECT_TRUE(instance->apply(epoch, updates).stale.empty());
  EXPECT_FALSE(store_->has_pending());
}

}  // namespace
}  // namespace outbox::sqlite
