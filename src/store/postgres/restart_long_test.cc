// A server that ends, in good order or not, and comes back: on a server of its own.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "outbox/outbox.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

// Started and stopped by scripts/services under a name of its own.
class OwnServer {
 public:
  OwnServer() {
    run("start");
    std::ifstream file(OUTBOX_TEST_ROOT "/build/services/" + name_ + "/environment");
    std::string line;
    while (std::getline(file, line)) {
      const std::string key = "OUTBOX_TEST_POSTGRES=";
      if (line.starts_with(key)) url_ = line.substr(key.size());
    }
    if (url_.empty()) throw std::runtime_error("scripts/services names no server");
  }
  ~OwnServer() {
    try {
      run("stop");
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  const std::string& url() const { return url_; }

  void run(const std::string& command) const {
    const std::string line =
        OUTBOX_TEST_ROOT "/scripts/services " + command + " --name " + name_ + " postgres >&2";
    if (std::system(line.c_str()) != 0) throw std::runtime_error("failed: " + line);
  }

 private:
  // The tests run side by side.
  const std::string name_ = "restart-test-" + std::to_string(getpid());
  std::string url_;
};

class PostgresRestartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    server_ = std::make_unique<OwnServer>();
  }

  std::shared_ptr<Store> open_store() { return open(server_->url(), {.log = log_.log()}); }

  void restart(bool in_good_order) {
    if (in_good_order) return server_->run("restart");
    server_->run("kill");
    server_->run("start");
  }

  testing::RecordingLog log_;
  std::unique_ptr<OwnServer> server_;
};

// Tries again until it works: at most the longest pause between attempts.
template <class Work>
bool works_again(Work work) {
  return eventually([&] {
    try {
      work();
      return true;
    } catch (const RetryableError&) {
      return false;
    }
  });
}

TEST_F(PostgresRestartTest, PoolInstanceAndWatchSurviveIt) {
  const auto store = open_store();
  const auto instance = store->join({.lease = 60s});
  testing::Signal seen;
  const auto watched = store->watch([&] { seen.raise(); });
  Tenure tenure = instance->renew();
  ASSERT_TRUE(seen.wait());
  for (const bool in_good_order : {true, false}) {
    const std::string id = in_good_order ? "restarted" : "killed";
    write_event(*store, simple_event(id));
    const auto open = begun(*store);
    open->query("SELECT 1", {});
    ASSERT_TRUE(eventually([&] { return instance->ready(tenure.shards, 0, 10).rows.size() == 1; }));
    const std::size_t before = seen.count();
    restart(in_good_order);

    EXPECT_THROW(open->commit(), Error) << "its transaction is lost";
    EXPECT_TRUE(works_again([&] { begun(*store); }));
    EXPECT_TRUE(works_again([&] { EXPECT_EQ(instance->renew().epoch, tenure.epoch); }));
    Rows rows;
    EXPECT_TRUE(works_again([&] {
      instance->rewind(0);
      rows = instance->ready(tenure.shards, 0, 10);
    }));
    ASSERT_EQ(ids(rows.rows), std::vector<std::string>{id});
    const Mark done{.row = rows.rows.front().ref, .event_id = id};
    EXPECT_TRUE(works_again([&] {
      const MarkResult marked = instance->mark(tenure.epoch, {&done, 1});
      EXPECT_FALSE(marked.fenced);
      EXPECT_TRUE(marked.stale.empty());
    }));
    EXPECT_TRUE(seen.wait(before + 1)) << "called for the gap";
    const std::size_t back = seen.count();
    write_event(*store, simple_event(id + " after"));
    EXPECT_TRUE(seen.wait(back + 1)) << "hears again";
    const Mark after{.row = store->find(id + " after")->row.ref, .event_id = id + " after"};
    instance->mark(tenure.epoch, {&after, 1});
  }
}

TEST_F(PostgresRestartTest, AnEngineGoesOnAndDeliversEverythingOnce) {
  const auto listener = std::make_shared<testing::RecordingListener>();
  Listeners listeners;
  listeners.add(kGlobalAggregate, "Happened", listener);
  outbox::Options options{.mode = Mode::multi_node, .log = log_.log()};
  options.poll_interval = 200ms;
  Outbox box(open_store(), listeners, std::move(options));
  box.start();
  std::size_t written = 0;
  const auto write = [&] {
    auto tx = box.begin();
    tx.write({.type = "Happened", .payload = json("{}"), .id = std::to_string(written)});
    tx.commit();
    ++written;
  };
  write();
  EXPECT_TRUE(box.wait_idle(20s));
  for (const bool in_good_order : {true, false}) {
    restart(in_good_order);
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(works_again(write));
    EXPECT_TRUE(listener->wait_for(written));
    EXPECT_TRUE(box.wait_idle(20s));
  }
  EXPECT_EQ(listener->count(), written);
}

}  // namespace
}  // namespace outbox::postgres
