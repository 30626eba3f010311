// Events that kill the process that delivers them, and rows that cannot be read.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "database.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "support/services.h"
#include "support/temporary_directory.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

constexpr int kNeighbours = 30;
constexpr int kClean = 0;
constexpr int kKilled = 1;
constexpr int kFailed = 2;

// One that nobody is isolated of yet, two in company, two alone.
constexpr int kDeaths = 5;
constexpr int kMaxChildren = 12;

class KillerTest : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override {
    if (GetParam().server != nullptr) OUTBOX_NEEDS_SERVICE(GetParam().server);
    database_ = GetParam().make();
  }

  std::shared_ptr<Store> open() { return database_->open(); }

  static Logger no_log() {
    return [](const LogRecord&) {};
  }

  static Draft draft(const std::string& aggregate, const std::string& payload) {
    return {.type = "Happened",
            .aggregate_type = "Order",
            .aggregate_id = aggregate,
            .payload = json(payload)};
  }

  // Delivers everything, in a process of its own; how it ended. Events with
  // the payload "poison" end it at once, the others are noted in a file.
  int deliver_in_a_child() {
    const pid_t child = fork();
    if (child == 0) _exit(deliver());
    int state = 0;
    if (child < 0 || waitpid(child, &state, 0) != child || !WIFEXITED(state)) return kFailed;
    return WEXITSTATUS(state);
  }

  // How often each event was delivered.
  std::map<std::string, int> delivered() const {
    std::map<std::string, int> counts;
    std::ifstream file(delivered_file());
    for (std::string id; std::getline(file, id);) ++counts[id];
    return counts;
  }

 private:
  std::string delivered_file() const { return directory_.file("delivered"); }

  int deliver() {
    try {
      Listeners on;
      on.add("Order", "Happened", [this](const Event& event, const Delivery&) {
        if (event.payload() == "\"poison\"") _exit(kKilled);
        // One write to a file opened for appending: whole lines, also when
        // another worker ends the process.
        std::ofstream(delivered_file(), std::ios::app) << event.id() + "\n" << std::flush;
        return Outcome::done();
      });
      Outbox box{open(), on, {.log = no_log()}};
      box.start();
      return box.wait_idle(60s) ? kClean : kFailed;
    } catch (const std::exception& error) {
      fprintf(stderr, "child: %s\n", error.what());
      return kFailed;
    }
  }

  const test::TemporaryDirectory directory_;
  std::unique_ptr<chaos::Database> database_;
};

OUTBOX_ON_EVERY_DATABASE(KillerTest);

TEST_P(KillerTest, AnEventThatKillsItsProcessBecomesDeadAndItsNeighboursAreDelivered) {
  std::string poison;
  std::set<std::string> neighbours;
  {
    // Gone before the first fork: a child must inherit no connection.
    Writer writer{open()};
    auto tx = writer.begin();
    for (int n = 0; n < kNeighbours; ++n) {
      if (n == kNeighbours / 2) poison = tx.write(draft("poisoned", "\"poison\""));
      // Some share its aggregate, before and behind it.
      neighbours.insert(tx.write(draft(n % 5 == 0 ? "poisoned" : std::to_string(n), "\"fine\"")));
    }
    tx.commit();
  }

  int deaths = 0;
  int end = kKilled;
  for (; end == kKilled && deaths < kMaxChildren; deaths += end == kKilled) {
    end = deliver_in_a_child();
  }
  ASSERT_EQ(end, kClean) << "after " << deaths << " deaths";
  EXPECT_EQ(deaths, kDeaths);

  const auto store = open();
  const auto dead = store->admin().find(poison);
  ASSERT_TRUE(dead);
  EXPECT_EQ(dead->row.status, Status::dead);
  EXPECT_NE(dead->last_error.find("the process died"), std::string::npos) << dead->last_error;
  const auto counts = delivered();
  EXPECT_FALSE(counts.contains(poison));
  for (const std::string& id : neighbours) {
    EXPECT_TRUE(counts.contains(id)) << id;
    EXPECT_EQ(store->admin().find(id)->row.status, Status::done) << id;
  }
  EXPECT_EQ(counts.size(), neighbours.size());
}

TEST_P(KillerTest, ARowThatCannotBeDecodedBecomesDeadAndThoseAroundItAreDelivered) {
  const auto store = open();
  const auto recorder = std::make_shared<testing::RecordingListener>();
  Listeners on;
  on.add("Order", "Happened", recorder);
  Outbox box{store, on, {.log = no_log()}};

  auto tx = box.begin();
  const std::string before = tx.write(draft("1", "\"before\""));
  tx.execute(
      "INSERT INTO outbox_event(event_id, event_type, aggregate_type, aggregate_id, headers, "
      "payload)"
      " VALUES ('broken', 'Happened', 'Order', '1', '{not json', '\"broken\"')");
  const std::string behind = tx.write(draft("1", "\"behind\""));
  const std::string beside = tx.write(draft("2", "\"beside\""));
  tx.commit();
  box.start();
  ASSERT_TRUE(box.wait_idle(20s));

  const auto broken = store->admin().find("broken");
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->row.status, Status::dead);
  EXPECT_NE(broken->last_error.find("headers"), std::string::npos) << broken->last_error;
  const auto ids = recorder->ids();
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()),
            (std::set<std::string>{before, behind, beside}));
  for (const std::string& id : {before, behind, beside}) {
    EXPECT_EQ(store->admin().find(id)->row.status, Status::done);
  }
}

}  // namespace
}  // namespace outbox
