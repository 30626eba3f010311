// Following events on a server, where transactions commit in any order.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "cli/commands/tail.h"
#include "outbox/log.h"
#include "outbox/postgres.h"
#include "outbox/writer.h"
#include "support/postgres.h"

namespace outbox::cli {
namespace {

using namespace std::chrono_literals;

class PostgresTail : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_.emplace();
    store_ = postgres::open(test::postgres_url(), {.table = schema_->name() + ".outbox_event"});
    writer_.emplace(store_);
    other_writer_.emplace(store_);
  }

  std::string write(const char* type) {
    auto tx = writer_->begin();
    std::string id = tx.write({.type = type, .payload = json("{}")});
    tx.commit();
    return id;
  }

  std::optional<test::Schema> schema_;
  std::shared_ptr<Store> store_;
  std::optional<Writer> writer_;
  std::optional<Writer> other_writer_;
};

TEST_F(PostgresTail, ShowsWhatWasCommittedAfterARowBehindIt) {
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

TEST_F(PostgresTail, ShowsWhatWasBeingWrittenWhenItBegan) {
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

}  // namespace
}  // namespace outbox::cli
