// Following events on a server, where transactions commit in any order.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "cli/commands/tail.h"
#include "outbox/log.h"
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
