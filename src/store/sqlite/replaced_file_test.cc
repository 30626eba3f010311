// A database file that is deleted or replaced while it is open.
#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

constexpr int kShard[] = {0};

class ReplacedFileTest : public SqliteTest {
 protected:
  ReplacedFileTest() {
    write_event(*store_, simple_event("old"));
    epoch_ = instance_->renew().epoch;
  }

  void move_away() const {
    for (const char* part : {"", "-wal", "-shm"}) {
      std::filesystem::rename(path() + part, file("elsewhere") + part);
    }
  }
  void move_back() const {
    for (const char* part : {"", "-wal", "-shm"}) {
      std::filesystem::rename(file("elsewhere") + part, path() + part);
    }
  }

  void expect_refusals(const std::string& why) const {
    const auto connection = store_->connect();
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { connection->begin(); }), why));
    EXPECT_TRUE(contains(
        message_of<PermanentError>([&] { connection->execute("CREATE TABLE t (a)", {}); }), why));
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_->counts(); }), why));
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_->find("old"); }), why));
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_->join({}); }), why));
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_->replay("old"); }), why));
  }

  const std::shared_ptr<Store> store_ = open_store();
  const std::unique_ptr<Instance> instance_ = store_->join({});
  std::int64_t epoch_ = 0;
};

TEST_F(ReplacedFileTest, WhatWasWrittenToADeletedFileWasAcknowledgedAndLost) {
  std::filesystem::remove(path());
  expect_refusals("was deleted or moved while this process had it open");
}

TEST_F(ReplacedFileTest, NothingGoesToTheFileThatIsThereNow) {
  move_away();
  const auto other = open_store();
  expect_refusals("was replaced while this process had it open");
  EXPECT_FALSE(other->has_pending());
}

TEST_F(ReplacedFileTest, TheOwnerGivesUpSaysWhyAndLetsOthersOwnTheNewOne) {
  const StatusUpdate update{.row = store_->find("old")->row.ref, .event_id = "old"};
  move_away();
  EXPECT_THROW(instance_->apply(epoch_, {&update, 1}), PermanentError);
  const auto other_store = open_store();
  const auto other = other_store->join({});
  EXPECT_EQ(other->renew().epoch, 0) << "the lock file is the same";

  EXPECT_EQ(instance_->renew().epoch, 0) << "what was read is dropped";
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { instance_->renew(); }), "was replaced"));
  EXPECT_TRUE(instance_->apply(epoch_, {&update, 1}).fenced);
  EXPECT_NE(other->renew().epoch, 0);
  instance_->leave();
}

TEST_F(ReplacedFileTest, OnceTheFileIsBackItIsOwnedAnew) {
  move_away();
  EXPECT_EQ(instance_->renew().epoch, 0);
  EXPECT_THROW(instance_->renew(), PermanentError);
  move_back();
  EXPECT_GT(instance_->renew().epoch, epoch_);
  EXPECT_EQ(instance_->ready(kShard, 0, 10).rows.size(), 1u);
  write_event(*store_, simple_event("new"));
}

TEST_F(ReplacedFileTest, ClaimersGiveUpToo) {
  instance_->leave();
  const auto claimer = store_->join({.row_claims = true});
  EXPECT_NE(claimer->renew().epoch, 0);
  std::filesystem::remove(path());
  EXPECT_THROW(claimer->claim(0ms, 10), PermanentError);
  EXPECT_EQ(claimer->renew().epoch, 0);
  EXPECT_THROW(claimer->renew(), PermanentError);
}

}  // namespace
}  // namespace outbox::sqlite
