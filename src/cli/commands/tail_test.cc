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

}  // namespace
}  // namespace outbox::cli
