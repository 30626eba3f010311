// What several processes, or other programs, do on one file: who owns it, and how commits are heard
// of. What one process can show, the conformance suite shows.
#include "store/sqlite/test_support.h"
#include "support/sqlite_writes.h"

namespace outbox::sqlite {
namespace {

class OwnershipTest : public SqliteTest {
 protected:
  // A process that owns the table until it is killed.
  std::unique_ptr<ChildProcess> owner_process(std::size_t capacity = 1'000) {
    const Milestone owns;
    auto child = std::make_unique<ChildProcess>([&] {
      const auto store = open_store();
      const auto instance = store->join({.capacity = capacity});
      if (instance->renew().epoch == 0) return 1;
      owns.reach();
      pause();
      return 0;
    });
    EXPECT_TRUE(owns.wait());
    return child;
  }

  std::string lock_file() const { return path() + "-outbox_event.owner"; }
};

TEST_F(OwnershipTest, IsAStandbyWhileAnotherProcessLivesAndTakesOverWhenItIsKilled) {
  const auto other = owner_process(77);
  const auto store = open_store();
  const auto instance = store->join({});
  Lease lease = instance->renew();
  EXPECT_EQ(lease.epoch, 0);
  EXPECT_TRUE(lease.shards.empty());

  other->kill_now();
  lease = instance->renew();
  EXPECT_EQ(lease.epoch, 2);
  EXPECT_EQ(lease.shards, std::vector{0});
  ASSERT_EQ(lease.inherited.size(), 1u);
  EXPECT_EQ(lease.inherited[0].candidates, 77u);
  EXPECT_TRUE(instance->renew().inherited.empty()) << "told once";
}

TEST_F(OwnershipTest, AStoppedProcessKeepsWhatItOwns) {
  const Milestone owns;
  ChildProcess other([&] {
    const auto store = open_store();
    const auto instance = store->join({});
    instance->renew();
    owns.reach();
    raise(SIGSTOP);
    return 0;
  });
  ASSERT_TRUE(owns.wait());
  EXPECT_EQ(open_store()->join({})->renew().epoch, 0);
}

TEST_F(OwnershipTest, AProcessThatLeftLeavesNoPoisonCandidates) {
  ChildProcess other([&] {
    const auto store = open_store();
    const auto instance = store->join({});
    instance->renew();
    instance->leave();
    return 0;
  });
  ASSERT_EQ(other.wait(), 0);
  const auto store = open_store();
  const Lease lease = store->join({})->renew();
  EXPECT_EQ(lease.epoch, 2);
  EXPECT_TRUE(lease.inherited.empty());
}

TEST_F(OwnershipTest, TwoStoresOfOneProcessAreTwoOwners) {
  const auto first = open_store();
  const auto second = open_store();
  const auto owner = first->join({});
  const auto waiting = second->join({});
  EXPECT_EQ(owner->renew().epoch, 1);
  EXPECT_EQ(waiting->renew().epoch, 0);
  owner->leave();
  EXPECT_EQ(waiting->renew().epoch, 2);
}

TEST_F(OwnershipTest, PathsToTheSameFileMeanTheSameOwner) {
  const auto direct = open_store();
  std::filesystem::create_symlink(path(), file("link.db"));
  const auto linked = sqlite::open(file("link.db"));
  const auto owner = direct->join({});
  EXPECT_NE(owner->renew().epoch, 0);
  EXPECT_EQ(linked->join({})->renew().epoch, 0);
}

TEST_F(OwnershipTest, DeletingTheLockFileLetsInAnotherOwnerAndFencesTheOldOne) {
  const auto store = open_store();
  write_event(*store, simple_event("e"));
  const auto old_owner = store->join({});
  EXPECT_EQ(old_owner->renew().epoch, 1);
  std::filesystem::remove(lock_file());

  const auto new_owner = store->join({});
  EXPECT_EQ(new_owner->renew().epoch, 2);
  const StatusUpdate update{.row = store->admin().find("e")->row.ref, .event_id = "e"};
  EXPECT_TRUE(old_owner->apply(1, {&update, 1}).fenced);
  EXPECT_EQ(store->admin().find("e")->row.status, Status::pending);
  EXPECT_EQ(old_owner->renew().epoch, 0) << "it has noticed";

  old_owner->leave();
  EXPECT_FALSE(new_owner->apply(2, {&update, 1}).fenced) << "not given back by the old one";
}

TEST_F(OwnershipTest, AloneAfterTheLockFileWasDeletedItStartsANewEpochWithoutPoisonCandidates) {
  const auto store = open_store();
  const auto instance = store->join({});
  EXPECT_EQ(instance->renew().epoch, 1);
  std::filesystem::remove(lock_file());
  const Lease lease = instance->renew();
  EXPECT_EQ(lease.epoch, 2);
  EXPECT_TRUE(lease.inherited.empty()) << "nobody died";
}

TEST_F(OwnershipTest, TheEpochNeverGoesBack) {
  const auto store = open_store();
  const auto instance = store->join({});
  EXPECT_EQ(instance->renew().epoch, 1);
  ForeignConnection(path()).run("DELETE FROM outbox_event_instance");
  EXPECT_EQ(instance->renew().epoch, 2);
}

TEST_F(OwnershipTest, ClaimersShareTheTableAndKeepOutOneThatWouldOwnItAll) {
  const auto store = open_store();
  const auto first = store->join({.row_claims = true});
  const auto second = store->join({.row_claims = true});
  const auto whole = store->join({});
  EXPECT_NE(first->renew().epoch, 0);
  EXPECT_NE(second->renew().epoch, 0);
  EXPECT_EQ(whole->renew().epoch, 0);
  first->leave();
  second->leave();
  EXPECT_NE(whole->renew().epoch, 0);
  EXPECT_EQ(first->renew().epoch, 0);
}

TEST_F(OwnershipTest, AChildMadeByForkIsRefusedAndHarmsNobody) {
  const auto store = open_store();
  const auto instance = store->join({});
  EXPECT_EQ(instance->renew().epoch, 1);
  auto connection = store->connect();
  ChildProcess child([&] {
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const MisuseError&) {
        return true;
      }
      return false;
    };
    const StatusUpdate update{.row = {.seq = 1}};
    const Event event = simple_event("e");
    if (!refused([&] { store->connect(); })) return 1;
    if (!refused([&] { store->join({}); })) return 2;
    if (!refused([&] { store->watch([] {}); })) return 3;
    if (!refused([&] { store->has_pending(); })) return 4;
    if (!refused([&] { instance->renew(); })) return 5;
    if (!refused([&] { instance->apply(1, {&update, 1}); })) return 6;
    if (!refused([&] { instance->due(std::vector{0}, 1); })) return 7;
    if (!refused([&] { connection->begin(); })) return 8;
    if (!refused([&] { connection->query("SELECT 1", {}); })) return 9;
    connection.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(instance->renew().epoch, 1);
  write_event(*store, simple_event("e"));
  EXPECT_TRUE(store->admin().find("e"));
}

TEST_F(OwnershipTest, ProcessesThatWriteAtOnceLoseNothing) {
  constexpr int kProcesses = 4;
  constexpr int kEach = 100;
  open_store();
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(std::make_unique<ChildProcess>([this, process] {
      const auto store = open_store({.wait_timeout = 20s});
      for (int i = 0; i < kEach; ++i) {
        write_event(*store, simple_event(std::to_string(process) + "/" + std::to_string(i)));
      }
      return 0;
    }));
  }
  for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
  EXPECT_EQ(open_store()->counts().pending, kProcesses * kEach);
}

// Where the lock file does not keep the two apart, because somebody deleted it.
TEST_F(OwnershipTest, ATakeOverWhileAnUpdateWaitsForTheLockFencesIt) {
  test::SqliteWrites writes;
  const auto store = open_store();
  const ForeignConnection db(path());
  const auto instance = store->join({});
  const std::int64_t epoch = instance->renew().epoch;
  using Kind = StatusUpdate::Kind;
  for (const Kind kind : {Kind::done, Kind::retry, Kind::defer, Kind::dead, Kind::hold,
                          Kind::crashes, Kind::unblock}) {
    const std::string id = "e" + std::to_string(static_cast<int>(kind));
    const auto row = [&] {
      return db.value(
          "SELECT quote(status) || quote(hold) || quote(crashes) || quote(attempts) || "
          "quote(available_at) || quote(done_at) FROM outbox_event WHERE event_id = '" +
          id + "'");
    };
    write_event(*store, simple_event(id));
    if (kind == Kind::unblock) {
      db.run("UPDATE outbox_event SET status = 3, hold = 5 WHERE event_id = '" + id + "'");
    }
    const std::string before = row();
    db.run("UPDATE outbox_event_instance SET epoch = " + std::to_string(epoch));
    writes.before_next([&] { db.run("UPDATE outbox_event_instance SET epoch = epoch + 1"); });
    const StatusUpdate late{.row = store->admin().find(id)->row.ref,
                            .event_id = id,
                            .kind = kind,
                            .lane = 7,
                            .attempts = 3,
                            .crashes = 3,
                            .delay = 1s};
    EXPECT_TRUE(instance->apply(epoch, {&late, 1}).fenced) << id;
    EXPECT_TRUE(writes.came());
    EXPECT_EQ(row(), before) << id;
  }
}

// How commits are heard of.

class SqliteWatchTest : public SqliteTest {
 protected:
  std::unique_ptr<Watch> watch() {
    auto watch = store_->watch([this] { seen_.raise(); });
    EXPECT_NE(watch, nullptr);
    return watch;
  }

  // Whether a call comes that was not there before `work`.
  template <class Work>
  bool noticed(Work work) {
    const std::size_t before = seen_.count();
    work();
    return seen_.wait(before + 1);
  }

  const std::shared_ptr<Store> store_ = open_store();
  testing::Signal seen_;
};

TEST_F(SqliteWatchTest, NoticesCommitsOfOtherProcesses) {
  const Milestone go;
  ChildProcess other([&] {
    if (!go.wait()) return 1;
    write_event(*open_store(), simple_event("e"));
    return 0;
  });
  const auto watched = watch();
  EXPECT_TRUE(noticed([&] { go.reach(); }));
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(SqliteWatchTest, GoesOnAfterACheckpointRestartedTheLog) {
  const ForeignConnection db(path());
  const auto watched = watch();
  EXPECT_TRUE(noticed([&] { write_event(*store_, simple_event("a")); }));
  db.run("PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_TRUE(noticed([&] { write_event(*store_, simple_event("b")); }));
}

TEST_F(SqliteWatchTest, AWatcherThatThrowsIsLoggedAndCalledAgain) {
  const testing::RecordingLog log;
  const auto store = open_store({.log = log.log()});
  const auto watched = store->watch([this] {
    seen_.raise();
    throw std::runtime_error("no");
  });
  EXPECT_TRUE(noticed([&] { write_event(*store, simple_event("a")); }));
  EXPECT_TRUE(noticed([&] { write_event(*store, simple_event("b")); }));
  EXPECT_TRUE(log.contains("a commit watcher threw: no"));
}

TEST_F(SqliteWatchTest, OutlivesTheStore) {
  auto store = open_store();
  const auto watched = store->watch([this] { seen_.raise(); });
  store.reset();
  EXPECT_TRUE(noticed([&] { write_event(*store_, simple_event("a")); }));
}

}  // namespace
}  // namespace outbox::sqlite
