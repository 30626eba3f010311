// The suite on the tracker in Redis, and what only a server can do to it.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "client/redis/connection.h"
#include "consumer/tracker_conformance.h"
#include "outbox/consumer/redis.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "support/services.h"
#include "support/stores.h"
#include "support/tcp_proxy.h"

namespace outbox::test {
namespace {

using namespace std::chrono_literals;
using State = ConsumptionTracker::State;

constexpr TrackerOptions kOptions{.lease = 60s, .retention = 3600s};

// For keys that no other test has.
std::string unique_prefix() {
  static int last = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(++last);
}

std::string text_of(const redisReply& reply) { return {reply.str, reply.len}; }

// What is stored under a prefix.
class Records {
 public:
  explicit Records(std::string prefix, const std::string& url = redis_url())
      : prefix_(std::move(prefix)), connection_(redis::ConnectOptions::parse(url), {}) {}
  ~Records() {
    try {
      const std::vector<std::string> all = keys();
      std::vector<std::string_view> words{"DEL"};
      words.insert(words.end(), all.begin(), all.end());
      if (!all.empty()) connection_.command(words);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }

  std::vector<std::string> keys() {
    const redis::ReplyHandle reply = connection_.command({"KEYS", prefix_ + ":*"});
    std::vector<std::string> all;
    for (std::size_t i = 0; i < reply->elements; ++i) all.push_back(text_of(*reply->element[i]));
    return all;
  }

  long long ttl(const std::string& key) { return connection_.command({"PTTL", key})->integer; }

  std::optional<long long> number(const std::string& key, const std::string& field) {
    const redis::ReplyHandle reply = connection_.command({"HGET", key, field});
    if (reply->type == REDIS_REPLY_NIL) return std::nullopt;
    return std::stoll(text_of(*reply));
  }

  // As if so much time had passed.
  void age(std::chrono::milliseconds by) {
    for (const std::string& key : keys()) {
      if (const auto until = number(key, "until")) {
        const std::string earlier = std::to_string(*until - by.count() * 1000);
        connection_.command({"HSET", key, "until", earlier});
      }
      // Deletes it if that is over.
      connection_.command({"PEXPIRE", key, std::to_string(ttl(key) - by.count())});
    }
  }

  redis::Connection& connection() { return connection_; }

 private:
  const std::string prefix_;
  redis::Connection connection_;
};

class RedisBackend final : public TrackerBackend {
 public:
  const char* service() const override { return "OUTBOX_TEST_REDIS"; }
  std::shared_ptr<ConsumptionTracker> open(TrackerOptions options) override {
    if (!records_) records_.emplace(prefix_);
    return redis::tracker(redis_url(), options, {.prefix = prefix_});
  }
  void advance(std::chrono::milliseconds by) override { records_->age(by); }
  bool shared() const override { return true; }

 private:
  const std::string prefix_ = unique_prefix();
  std::optional<Records> records_;
};

OUTBOX_TRACKER_CONFORMANCE(Redis, [] { return std::make_unique<RedisBackend>(); });

class RedisTrackerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_REDIS();
    records_.emplace(prefix_);
    proxy_ = std::make_unique<TcpProxy>("127.0.0.1", port_of(redis_url()));
  }

  std::shared_ptr<ConsumptionTracker> open(const std::string& url, redis::Options options = {}) {
    options.prefix = prefix_;
    options.log = log_.log();
    return redis::tracker(url, kOptions, options);
  }
  std::shared_ptr<ConsumptionTracker> open_by_proxy(redis::Options options = {}) {
    return open(with_port(redis_url(), proxy_->port()), options);
  }

  const std::string prefix_ = unique_prefix();
  testing::RecordingLog log_;
  std::optional<Records> records_;
  std::unique_ptr<TcpProxy> proxy_;
};

TEST_F(RedisTrackerTest, KeysAreNamedAndExpireAsPromised) {
  const auto tracker = open(redis_url());
  const auto start = tracker->start("bil:ling}", "e/1");
  const std::string key = prefix_ + ":{bil%3Aling%7D:e/1}";
  ASSERT_EQ(records_->keys(), std::vector{key});
  EXPECT_EQ(records_->number(key, "fence"), start.fence);
  const auto expect_retention = [&] {
    EXPECT_LE(records_->ttl(key), 3'600'000);
    EXPECT_GT(records_->ttl(key), 3'500'000);
  };
  expect_retention();
  records_->age(1000s);
  ASSERT_TRUE(tracker->abandon("bil:ling}", "e/1", start.fence));
  expect_retention();
  records_->age(1000s);
  const auto again = tracker->start("bil:ling}", "e/1");
  expect_retention();
  records_->age(1000s);
  ASSERT_TRUE(tracker->finish("bil:ling}", "e/1", again.fence));
  expect_retention();
  EXPECT_FALSE(records_->number(key, "until"));
}

TEST_F(RedisTrackerTest, InvalidOptionsAreRefused) {
  EXPECT_THROW(redis::tracker("redis://h", kOptions, {.prefix = ""}), MisuseError);
  EXPECT_TRUE(contains(
      message_of<MisuseError>([] { redis::tracker("redis://h", kOptions, {.prefix = "a{b}"}); }),
      "prefix is \"a{b}\""));
  EXPECT_THROW(redis::tracker("redis://h", kOptions, {.connections = 0}), MisuseError);
  EXPECT_TRUE(contains(message_of<MisuseError>([] {
                         redis::tracker("redis://h", kOptions, {.tls = {.verify = false}});
                       }),
                       "write rediss://"));
  EXPECT_TRUE(contains(message_of<MisuseError>([] {
                         redis::tracker("rediss://h", kOptions, {.tls = {.ca_file = "/none"}});
                       }),
                       "tls.ca_file"));
}

TEST_F(RedisTrackerTest, WorksWithTls) {
  const auto setting = [&](std::string_view name) {
    return text_of(*records_->connection().command({"CONFIG", "GET", name})->element[1]);
  };
  const std::string url = "rediss://localhost:" + setting("tls-port");
  const auto tracker = open(url, {.tls = {.ca_file = setting("tls-ca-cert-file")}});
  const auto start = tracker->start("g", "e");
  EXPECT_EQ(start.state, State::started);
  EXPECT_TRUE(tracker->finish("g", "e", start.fence));
  EXPECT_EQ(open(redis_url())->start("g", "e").state, State::done);
}

TEST_F(RedisTrackerTest, NothingIsConnectedBeforeItIsUsed) {
  proxy_->refuse();
  const auto tracker = open_by_proxy();
  EXPECT_THROW(tracker->start("g", "e"), UnavailableError);
  proxy_->admit();
  EXPECT_TRUE(eventually([&] {
    try {
      return tracker->start("g", "e").state == State::started;
    } catch (const UnavailableError&) {
      return false;
    }
  }));
}

TEST_F(RedisTrackerTest, AStartWhoseAnswerIsLostIsAskedAgainAndIsStillOnes) {
  const auto tracker = open_by_proxy();
  tracker->start("g", "first");  // knows the scripts now
  proxy_->drop_reply("EVALSHA");
  const auto start = tracker->start("g", "e");
  EXPECT_EQ(proxy_->drops(), 1);
  EXPECT_EQ(start.state, State::started);
  EXPECT_EQ(tracker->start("g", "e").state, State::in_progress);
  EXPECT_TRUE(tracker->finish("g", "e", start.fence));
}

TEST_F(RedisTrackerTest, ARequestThatIsLostIsSentAgain) {
  const auto tracker = open_by_proxy();
  tracker->start("g", "first");
  proxy_->drop_request("EVALSHA");
  EXPECT_EQ(tracker->start("g", "e").state, State::started);
  EXPECT_EQ(proxy_->drops(), 1);
}

TEST_F(RedisTrackerTest, ARecordWhoseAnswerIsLostIsMadeOnce) {
  const auto tracker = open_by_proxy();
  const auto done = tracker->start("g", "done");
  const auto failed = tracker->start("g", "failed");
  tracker->finish("g", "other", tracker->start("g", "other").fence);
  tracker->abandon("g", "third", tracker->start("g", "third").fence);
  proxy_->drop_reply("EVALSHA");
  EXPECT_TRUE(tracker->finish("g", "done", done.fence));
  proxy_->drop_reply("EVALSHA");
  EXPECT_TRUE(tracker->abandon("g", "failed", failed.fence));
  EXPECT_EQ(proxy_->drops(), 2);
  EXPECT_EQ(tracker->start("g", "done").state, State::done);
  EXPECT_EQ(tracker->start("g", "failed").state, State::started);
}

// Its beginning was carried out, and nobody is at it.
TEST_F(RedisTrackerTest, AStartThatWasGivenUpDoesNotBlockItsEventForALease) {
  const auto tracker = open_by_proxy({.timeout = 2s});
  tracker->start("g", "first");
  proxy_->drop_reply("EVALSHA", "never sent");  // arrives, and no answer comes
  EXPECT_THROW(tracker->start("g", "e"), UnavailableError);
  ASSERT_EQ(records_->keys().size(), 2U);
  EXPECT_EQ(open(redis_url())->start("g", "e").state, State::in_progress) << "for all others";
  const auto start = tracker->start("g", "e");
  EXPECT_EQ(start.state, State::started);
  EXPECT_EQ(tracker->start("g", "e").state, State::in_progress) << "for its own threads as well";
  EXPECT_TRUE(tracker->finish("g", "e", start.fence));
}

TEST_F(RedisTrackerTest, ConnectionsThatAreCutAreMadeAgain) {
  const auto tracker = open_by_proxy();
  for (int i = 0; i < 20; ++i) {
    const std::string id = std::to_string(i);
    const auto start = tracker->start("g", id);
    ASSERT_EQ(start.state, State::started);
    proxy_->cut();
    ASSERT_TRUE(tracker->finish("g", id, start.fence));
  }
}

TEST_F(RedisTrackerTest, AServerThatDoesNotAnswerIsUnavailable) {
  const auto tracker = open_by_proxy({.timeout = 1s});
  tracker->start("g", "first");
  proxy_->stall();
  EXPECT_TRUE(contains(message_of<UnavailableError>([&] { tracker->start("g", "e"); }),
                       "no answer within 1000 ms"));
  proxy_->resume();
}

TEST_F(RedisTrackerTest, AForeignKeyInItsPlaceIsPermanent) {
  records_->connection().command({"SET", prefix_ + ":{g:e}", "x"});
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { open(redis_url())->start("g", "e"); }),
                       "WRONGTYPE"));
}

TEST_F(RedisTrackerTest, AListenerWaitsForRedisWithoutSpendingAttempts) {
  const auto tracker = open_by_proxy();
  const auto inner = std::make_shared<testing::RecordingListener>();
  const auto listener = idempotent(tracker, "g", inner, {.log = log_.log()});
  proxy_->refuse();
  EXPECT_EQ(listener->on_event(simple_event("e"), {}).kind(), Outcome::Kind::unavailable);
  EXPECT_EQ(inner->count(), 0U);
  proxy_->admit();
  EXPECT_TRUE(eventually(
      [&] { return listener->on_event(simple_event("e"), {}).kind() == Outcome::Kind::done; }));
  EXPECT_EQ(listener->on_event(simple_event("e"), {}).kind(), Outcome::Kind::done);
  EXPECT_EQ(inner->count(), 1U);
}

// What docs/patterns shows.
TEST_F(RedisTrackerTest, EachHandlerOfAFanOutDoesItsPartOnce) {
  std::atomic<int> mails{0}, charges{0};
  const auto send_mail = [&](const Event&) { ++mails; };
  const auto charge_card = [&](const Event&) {
    // The first time the bank is unavailable.
    if (++charges == 1) throw RetryableError("no answer");
  };
  const std::string url = redis_url();
  const redis::Options options{.prefix = prefix_};
  // [tracker]
  auto tracker = outbox::redis::tracker(url, {.lease = 2min, .retention = 24h}, options);
  outbox::Listeners on;
  on.fan_out("Order", "OrderPlaced",
             {outbox::handler("mail", outbox::idempotent(tracker, "mail", send_mail)),
              outbox::handler("bank", outbox::idempotent(tracker, "bank", charge_card))});
  // [/tracker]
  const auto retry_at_once =
      std::make_shared<ExponentialBackoff>(ExponentialBackoffOptions{.base = 1ms, .max = 1ms});
  // The same event from two databases, as after a restore of one from the other.
  for (int i = 0; i < 2; ++i) {
    Outbox box{memory::open(), on, {.retry = {.policy = retry_at_once}}};
    box.start();
    auto tx = box.begin();
    tx.write({.type = "OrderPlaced",
              .aggregate_type = "Order",
              .aggregate_id = "42",
              .payload = json("{}"),
              .id = "01J0000000000000000000000A"});
    tx.commit();
    ASSERT_TRUE(box.wait_idle(20s));
  }
  EXPECT_EQ(mails, 1);
  EXPECT_EQ(charges, 2) << "once in vain";
}

// A child of this process: a byte for each event, 1 if it was the one that began it.
struct Racer {
  pid_t pid = 0;
  int results = -1;
};

// `begin`: a pipe whose writing end is closed when all may begin.
Racer start_racer(const std::string& url, const std::array<int, 2>& begin, int events) {
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) return {};
  const pid_t pid = fork();
  if (pid != 0) {
    close(pipe_ends[1]);
    return {.pid = pid, .results = pipe_ends[0]};
  }
  try {
    close(begin[1]);
    const auto tracker = redis::tracker(url, kOptions);
    char byte = 0;
    tracker->start("warm", std::to_string(getpid()));
    if (read(begin[0], &byte, 1) != 0) _exit(2);
    std::string results;
    for (int i = 0; i < events; ++i) {
      const bool first = tracker->start("race", std::to_string(i)).state == State::started;
      results += first ? '1' : '0';
    }
    const auto size = static_cast<ssize_t>(results.size());
    _exit(write(pipe_ends[1], results.data(), results.size()) == size ? 0 : 3);
  } catch (...) {
    _exit(4);
  }
}

// On a server of its own.
class RedisServerTest : public RedisTrackerTest {
 protected:
  void SetUp() override {
    RedisTrackerTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    server_ = std::make_unique<OwnServer>("redis");
    tracker_ = open(server_->url());
  }

  void configure(std::initializer_list<std::string_view> words) {
    redis::Connection(redis::ConnectOptions::parse(server_->url()), {}).command(words);
  }

  std::string with_login(const std::string& login) const {
    return "redis://" + login + "127.0.0.1:" + std::to_string(port_of(server_->url()));
  }

  // Asks until the server is there.
  ConsumptionTracker::Start start(const std::string& id) {
    ConsumptionTracker::Start start;
    EXPECT_TRUE(eventually([&] {
      try {
        start = tracker_->start("g", id);
        return true;
      } catch (const UnavailableError&) {
        return false;
      }
    }));
    return start;
  }

  std::unique_ptr<OwnServer> server_;
  std::shared_ptr<ConsumptionTracker> tracker_;
};

TEST_F(RedisServerTest, WhatWasRecordedSurvivesAKillOfADurableServer) {
  const auto done = tracker_->start("g", "done");
  ASSERT_TRUE(tracker_->finish("g", "done", done.fence));
  const auto busy = tracker_->start("g", "busy");
  server_->restart(false);
  EXPECT_EQ(start("done").state, State::done);
  EXPECT_EQ(start("busy").state, State::in_progress);
  EXPECT_TRUE(tracker_->finish("g", "busy", busy.fence));
  EXPECT_EQ(start("busy").state, State::done);
}

TEST_F(RedisServerTest, OfTwoProcessesExactlyOneBeginsEachEvent) {
  constexpr int kEvents = 10'000;
  proxy_.reset();  // no threads when it forks
  configure({"CONFIG", "SET", "appendfsync", "no"});
  std::array<int, 2> begin{};
  ASSERT_EQ(pipe(begin.data()), 0);
  std::vector<Racer> racers;
  for (int i = 0; i < 2; ++i) racers.push_back(start_racer(server_->url(), begin, kEvents));
  close(begin[0]);
  close(begin[1]);
  std::array<int, kEvents> started{};
  std::vector<int> of_each;
  for (const Racer& racer : racers) {
    std::string results(kEvents, ' ');
    std::size_t got = 0;
    for (ssize_t n = 1; n > 0 && got < results.size(); got += static_cast<std::size_t>(n)) {
      n = read(racer.results, results.data() + got, results.size() - got);
    }
    ASSERT_EQ(got, results.size());
    close(racer.results);
    int status = 0;
    waitpid(racer.pid, &status, 0);
    EXPECT_EQ(status, 0);
    for (std::size_t i = 0; i < results.size(); ++i) started.at(i) += results[i] == '1' ? 1 : 0;
    of_each.push_back(static_cast<int>(std::count(results.begin(), results.end(), '1')));
  }
  for (const int count : started) ASSERT_EQ(count, 1);
  EXPECT_EQ(of_each[0] + of_each[1], kEvents);
  RecordProperty("begun_by_the_first", of_each[0]);
}

TEST_F(RedisServerTest, AServerThatForgotEverythingStillHasGrowingFences) {
  const auto stale = tracker_->start("g", "e");
  configure({"FLUSHALL"});
  const auto owner = tracker_->start("g", "e");
  ASSERT_EQ(owner.state, State::started) << "what is lost is begun again";
  EXPECT_GT(owner.fence, stale.fence);
  EXPECT_FALSE(tracker_->finish("g", "e", stale.fence));
  EXPECT_TRUE(tracker_->finish("g", "e", owner.fence));
}

TEST_F(RedisServerTest, AServerWithoutMemoryOrWithoutAPrimaryIsUnavailable) {
  tracker_->start("g", "first");
  configure({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_TRUE(
      contains(message_of<UnavailableError>([&] { tracker_->start("g", "e"); }), "maxmemory"));
  configure({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(start("e").state, State::started);

  configure({"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_TRUE(
      contains(message_of<UnavailableError>([&] { tracker_->start("g", "f"); }), "READONLY"));
  configure({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(start("f").state, State::started);
}

TEST_F(RedisServerTest, APasswordThatIsAskedForIsPermanentUntilItIsGiven) {
  configure({"CONFIG", "SET", "requirepass", "tOpSeCrEt"});
  const std::string anonymous = with_login("");
  EXPECT_TRUE(
      contains(message_of<PermanentError>([&] { open(anonymous)->start("g", "e"); }), "NOAUTH"));
  const std::string wrong =
      message_of<PermanentError>([&] { open(with_login(":wRoNg@"))->start("g", "e"); });
  EXPECT_TRUE(contains(wrong, "WRONGPASS"));
  EXPECT_EQ(wrong.find("wRoNg"), wrong.npos);
  EXPECT_EQ(open(with_login(":tOpSeCrEt@"))->start("g", "e").state, State::started);
}

}  // namespace
}  // namespace outbox::test
