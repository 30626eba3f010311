#include "cli/commands/tail.h"

#include <gtest/gtest.h>

#include <string>

#include "outbox/memory.h"
#include "outbox/writer.h"

namespace outbox::cli {
namespace {

using namespace std::chrono_literals;

class TailTest : public ::testing::Test {
 protected:
  void write(int n, const char* type = "T") {
    for (int i = 0; i < n; ++i) {
      auto tx = writer_.begin();
      tx.write({.type = type, .payload = json("{}")});
      tx.commit();
    }
  }

  std::vector<Seq> seen(const TailOptions& options) {
    std::vector<Seq> seqs;
    tail_events(*store_, options, [&](const EventRecord& record) {
      seqs.push_back(record.row.ref.seq);
      return true;
    });
    return seqs;
  }

  std::shared_ptr<Store> store_ = memory::open();
  Writer writer_{store_};
};

TEST_F(TailTest, FindsTheLastRow) {
  EXPECT_EQ(last_seq(*store_, 0), 0);
  for (int n = 1; n <= 40; ++n) {
    write(1);
    const Seq last = store_->list({}, 0, 100).back().row.ref.seq;
    for (Seq from = 0; from <= last; from += 3) EXPECT_EQ(last_seq(*store_, from), last) << from;
  }
  EXPECT_EQ(last_seq(*store_, 1'000'000), 1'000'000);
}

TEST_F(TailTest, ShowsAllOfManyPagesOnce) {
  write(450);
  const auto seqs = seen({.after = 0, .duration = 0ms});
  ASSERT_EQ(seqs.size(), 450u);
  for (std::size_t n = 1; n < seqs.size(); ++n) EXPECT_LT(seqs[n - 1], seqs[n]);
}

TEST_F(TailTest, BeginsAtTheEndUnlessItIsToldOtherwise) {
  write(3);
  EXPECT_TRUE(seen({.duration = 0ms}).empty());
  EXPECT_EQ(seen({.after = 1, .duration = 0ms}).size(), 2u);
}

TEST_F(TailTest, IsWokenByACommitAndStopsWhenItIsToldTo) {
  int shown = 0;
  write(1, "first");
  tail_events(*store_, {.after = 0}, [&](const EventRecord& record) {
    ++shown;
    if (record.row.event.type() == "last") return false;
    write(1, shown == 5 ? "last" : "more");
    return true;
  });
  EXPECT_EQ(shown, 6);
}

using namespace std::chrono_literals;

const MissingRows::Instant kStart{};

std::vector<Seq> all(const MissingRows& missing) {
  std::vector<Seq> seqs;
  for (auto seq = missing.next(0); seq; seq = missing.next(*seq + 1)) seqs.push_back(*seq);
  return seqs;
}

TEST(MissingRows, AreTakenOnce) {
  MissingRows missing;
  missing.add(3, 6, kStart);
  missing.add(7, 7, kStart);
  missing.add(10, 9, kStart);
  EXPECT_EQ(all(missing), (std::vector<Seq>{3, 4, 5, 6, 7}));
  EXPECT_FALSE(missing.take(2));
  EXPECT_FALSE(missing.take(8));
  EXPECT_TRUE(missing.take(4));
  EXPECT_FALSE(missing.take(4));
  EXPECT_EQ(all(missing), (std::vector<Seq>{3, 5, 6, 7}));
  EXPECT_TRUE(missing.take(3));
  EXPECT_TRUE(missing.take(6));
  EXPECT_TRUE(missing.take(7));
  EXPECT_EQ(all(missing), (std::vector<Seq>{5}));
  EXPECT_TRUE(missing.take(5));
  EXPECT_FALSE(missing.next(0));
}

TEST(MissingRows, AreForgottenByTheTimeTheyWereMissed) {
  MissingRows missing;
  missing.add(1, 3, kStart);
  missing.add(5, 6, kStart + 2s);
  EXPECT_TRUE(missing.take(2));
  missing.forget(kStart + 1s);
  EXPECT_EQ(all(missing), (std::vector<Seq>{5, 6})) << "a part is as old as the whole";
  missing.forget(kStart + 2s);
  EXPECT_TRUE(all(missing).empty());
}

}  // namespace
}  // namespace outbox::cli
