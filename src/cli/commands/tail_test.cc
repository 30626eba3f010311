#include "cli/commands/tail.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "outbox/log.h"
#include "outbox/memory.h"
#include "outbox/writer.h"
#include "support/services.h"

#ifdef OUTBOX_WITH_POSTGRES
#include "outbox/postgres.h"
#include "support/postgres.h"
#endif
#ifdef OUTBOX_WITH_MYSQL
#include "outbox/mysql.h"
#include "support/mysql.h"
#endif

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
    const Seq last = store_->admin().list({}, 0, 100).back().row.ref.seq;
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

// --- On a server, where transactions commit in any order ---

// A store in a place of its own on a server.
struct Place {
  virtual ~Place() = default;
  virtual std::shared_ptr<Store> open() const = 0;
};

struct Kind {
  const char* variable;  // of the environment, that names the server
  std::unique_ptr<Place> (*make)();
};

template <class Its>
std::unique_ptr<Place> make() {
  return std::make_unique<Its>();
}

class ServerTail : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_SERVICE(GetParam().variable);
    place_ = GetParam().make();
    store_ = place_->open();
    writer_.emplace(store_);
    other_writer_.emplace(store_);
  }

  std::string write(const char* type) {
    auto tx = writer_->begin();
    std::string id = tx.write({.type = type, .payload = json("{}")});
    tx.commit();
    return id;
  }

  std::unique_ptr<Place> place_;
  std::shared_ptr<Store> store_;
  std::optional<Writer> writer_;
  std::optional<Writer> other_writer_;
};

TEST_P(ServerTail, ShowsWhatWasCommittedAfterARowBehindIt) {
  for (const char* type : {"", "T"}) {
    write("T");
    const Seq before = last_seq(*store_, 0);
    auto late = other_writer_->begin();
    const std::string late_id = late.write({.type = "T", .payload = json("{}")});
    write("another");
    const std::string last_id = write("T");
    std::vector<std::string> shown;
    tail_events(*store_, {.filter = {.type = type}, .after = before},
                [&](const EventRecord& record) {
                  shown.push_back(record.row.event.id());
                  if (shown.back() == last_id) late.commit();
                  return shown.back() != late_id;
                });
    ASSERT_EQ(shown.size(), *type == '\0' ? 3u : 2u);
    EXPECT_EQ(shown.end()[-2], last_id);
  }
}

TEST_P(ServerTail, ShowsWhatWasBeingWrittenWhenItBegan) {
  write("T");
  auto late = other_writer_->begin();
  const std::string late_id = late.write({.type = "T", .payload = json("{}")});
  write("T");
  std::vector<std::string> shown;
  std::atomic<bool> begun = false;
  // Whatever is shown was committed after the beginning.
  std::jthread other([&] {
    while (!begun) write("T");
  });
  tail_events(*store_, {}, [&](const EventRecord& record) {
    shown.push_back(record.row.event.id());
    if (!begun.exchange(true)) late.commit();
    return shown.back() != late_id;
  });
  EXPECT_EQ(shown.back(), late_id);
}

// Where none is built in there is nothing to run.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ServerTail);

#ifdef OUTBOX_WITH_POSTGRES
struct PostgresPlace final : Place {
  std::shared_ptr<Store> open() const override {
    return postgres::open(test::postgres_url(), {.table = schema.name() + ".outbox_event"});
  }
  const test::Schema schema{};
};
INSTANTIATE_TEST_SUITE_P(Postgres, ServerTail,
                         ::testing::Values(Kind{"OUTBOX_TEST_POSTGRES", make<PostgresPlace>}));
#endif

#ifdef OUTBOX_WITH_MYSQL
struct MysqlPlace final : Place {
  std::shared_ptr<Store> open() const override { return mysql::open(database.url()); }
  const test::Database database{};
};
INSTANTIATE_TEST_SUITE_P(Mysql, ServerTail,
                         ::testing::Values(Kind{"OUTBOX_TEST_MYSQL", make<MysqlPlace>}));
#endif

}  // namespace
}  // namespace outbox::cli
