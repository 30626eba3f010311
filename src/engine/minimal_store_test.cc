// A store that has only what must be there.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "outbox/admin/admin.h"
#include "outbox/admin/dead_events.h"
#include "outbox/admin/purge.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "support/engine.h"

namespace outbox {
namespace {

using testing::CountingMetrics;
using testing::eventually;
using testing::order_event;
using testing::RecordingListener;
using testing::write;
using namespace std::chrono_literals;

// What is pure virtual in Store, and no more; its rows are in memory.
class MinimalStore final : public Store {
 public:
  std::string description() const override { return "minimal store"; }
  Capabilities capabilities() const override { return {}; }
  const Clock& clock() const override { return rows_->clock(); }
  std::string side_table(std::string_view name) const override { return rows_->side_table(name); }
  std::unique_ptr<Connection> connect() override { return rows_->connect(); }
  std::unique_ptr<Instance> join(InstanceOptions options) override {
    return rows_->join(std::move(options));
  }
  std::unique_ptr<Watch> watch(std::function<void()> /*on_commit*/) override { return nullptr; }
  bool has_pending() override { return rows_->has_pending(); }
  Counts counts() override { return rows_->counts(); }
  Admin& admin() override { return admin_; }

 private:
  const std::shared_ptr<Store> rows_ = memory::open({.shards = 1});
  Admin admin_;
};

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const MisuseError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(MinimalStore, DeliversWithoutAnythingForOperators) {
  const auto store = std::make_shared<MinimalStore>();
  const auto metrics = std::make_shared<CountingMetrics>();
  const auto recorder =
      std::make_shared<RecordingListener>([](const Event& event, const Delivery&) {
        return event.payload() == "2" ? Outcome::permanent("broken") : Outcome::done();
      });
  Listeners on;
  on.add("Order", "Happened", recorder);
  Outbox box{store, on, {.poll_interval = 10ms, .metrics = metrics}};
  box.start();
  for (const char* payload : {"1", "2", "3"}) write(box, order_event("42", payload));
  EXPECT_TRUE(recorder->wait_for(3));
  EXPECT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(recorder->payloads(), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_TRUE(box.health().ready);
  EXPECT_TRUE(eventually([&] { return (*metrics)[Gauge::dead_events] == 1; }));
}

TEST(MinimalStore, TellsOperatorsWhatItCannot) {
  const auto store = std::make_shared<MinimalStore>();
  EXPECT_EQ(refusal([&] { store->admin().list({}, 0, 10); }),
            "this store does not support listing events: it does not implement Admin::list()");
  EXPECT_EQ(refusal([&] { DeadEvents{store}.query(); }),
            "this store does not support listing events: it does not implement Admin::list()");
  EXPECT_EQ(refusal([&] { DeadEvents{store}.replay_all({}); }),
            "this store does not support replaying events: it does not implement Admin::replay()");
  EXPECT_EQ(refusal([&] { Purger{store}.run_once(); }),
            "this store does not support purging events: it does not implement Admin::purge()");
}

}  // namespace
}  // namespace outbox
