#include "outbox/spi/store.h"

#include <gtest/gtest.h>

#include <future>

#include "base/url.h"
#include "model/instance_options.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/open.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

TEST(InstanceOptionsTest, WhatMakesSenseStays) {
  const InstanceOptions options = checked({.lease = 7s, .lock_timeout = 3min});
  EXPECT_EQ(options.lease, 7s);
  EXPECT_EQ(options.lock_timeout, 3min);
}

TEST(InstanceOptionsTest, ALeaseOrALockThatIsOverBeforeItBeganIsRefused) {
  EXPECT_THROW(checked({.lease = 0ms}), MisuseError);
  EXPECT_THROW(checked({.lease = -1ms}), MisuseError);
  EXPECT_THROW(checked({.row_claims = true, .lock_timeout = 0ms}), MisuseError);
  EXPECT_NO_THROW(checked({.lock_timeout = 0ms})) << "nobody claims rows";
}

TEST(InstanceOptionsTest, WhatLastsForEverCanBeAddedToTheTime) {
  const InstanceOptions options =
      checked({.lease = milliseconds::max(), .lock_timeout = milliseconds::max()});
  EXPECT_EQ(options.lease, 365 * 24h);
  EXPECT_EQ(options.lock_timeout, 365 * 24h);
}

// The sum overflowed: the member took itself for dead, and its share of the
// shards was divided by the number of the living, none.
TEST(InstanceOptionsTest, AMemberWithALeaseForEverIsNotDead) {
  const auto store = memory::open();
  const auto instance = store->join({.lease = milliseconds::max()});
  EXPECT_EQ(instance->renew().shards.size(), 16u);
  EXPECT_THROW(store->join({.lease = -1ms}), MisuseError);
}

// "For ever" was over at once: no connection was free.
TEST(BoundedTest, AWaitForEverIsNotOverAtOnce) {
  const auto store = memory::open({.connections = 1, .wait_timeout = milliseconds::max()});
  auto first = store->connect();
  auto second = std::async(std::launch::async, [&] { return store->connect(); });
  EXPECT_EQ(second.wait_for(50ms), std::future_status::timeout);
  first.reset();
  EXPECT_NE(second.get(), nullptr);
}

TEST(Status, HasTheNamesAndNumbersThatOperatorsSee) {
  EXPECT_EQ(to_string(Status::pending), "NEW");
  EXPECT_EQ(to_string(Status::done), "DONE");
  EXPECT_EQ(to_string(Status::retry), "RETRY");
  EXPECT_EQ(to_string(Status::dead), "DEAD");
  EXPECT_EQ(static_cast<int>(Status::pending), 0);
  EXPECT_EQ(static_cast<int>(Status::done), 1);
  EXPECT_EQ(static_cast<int>(Status::retry), 2);
  EXPECT_EQ(static_cast<int>(Status::dead), 3);
}

TEST(Status, NamesANumberThatNoReleaseWrote) {
  EXPECT_EQ(to_string(static_cast<Status>(9)), "UNKNOWN");
}

// Remembers with what it was called.
Scheme scheme(std::vector<std::string> names, std::string* given = nullptr) {
  return {.names = std::move(names), .open = [given](const std::string& url) {
            if (given != nullptr) *given = url;
            return memory::open();
          }};
}

std::string refusal(const std::string& url, std::vector<Scheme> schemes) {
  try {
    open(url, schemes);
  } catch (const MisuseError& error) {
    return error.what();
  }
  ADD_FAILURE() << url << " was accepted";
  return {};
}

TEST(Open, AsksTheSchemeThatTheUrlNames) {
  std::string one;
  std::string other;
  const auto store =
      open("Other2://u:p@H/x?Y", {scheme({"one"}, &one), scheme({"other", "OTHER2"}, &other)});
  EXPECT_TRUE(store);
  EXPECT_EQ(one, "");
  EXPECT_EQ(other, "other2://u:p@H/x?Y");
  open("one:", {scheme({"one"}, &one)});
  EXPECT_EQ(one, "one:");
}

TEST(Open, SaysWhichSchemesAreKnownAndKeepsPasswordsToItself) {
  const std::vector<Scheme> schemes{scheme({"one"}), scheme({"two", "three"})};
  for (const char* url : {"four://user:hunter2@host/db", "four:hunter2", "FOUR:hunter2"}) {
    const std::string message = refusal(url, schemes);
    EXPECT_EQ(message, "no store is known for \"four:\"; known are one:, two:, three:");
  }
  for (const char* url : {"", "hunter2", "/hunter2:x", "c:hunter2", "1x:hunter2", "a b:hunter2"}) {
    const std::string message = refusal(url, schemes);
    EXPECT_NE(message.find("does not begin with a scheme"), std::string::npos) << message;
    EXPECT_NE(message.find("known are one:, two:, three:"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
  EXPECT_NE(refusal("one:x", {}).find("none was passed"), std::string::npos);
}

TEST(Open, RefusesInvalidSchemes) {
  EXPECT_NE(refusal("one:x", {scheme({"one"}), scheme({"One"})}).find("two stores"),
            std::string::npos);
  EXPECT_NE(refusal("one:x", {{.names = {"one"}}}).find("without a function"), std::string::npos);
}

TEST(Open, PassesOnWhatTheSchemeThrows) {
  const Scheme unreachable{.names = {"unreachable"},
                           .open = [](const std::string&) -> std::shared_ptr<Store> {
                             throw RetryableError("nobody there");
                           }};
  EXPECT_THROW(open("unreachable:x", {unreachable}), RetryableError);
}

TEST(UrlScheme, OfAMessageShowsNoMoreThanTheScheme) {
  EXPECT_EQ(without_secrets("postgresql://u:p@h/db"), "postgresql://...");
  EXPECT_EQ(without_secrets("--bd=postgresql://u:p@h/db"), "--bd=postgresql://...");
  EXPECT_EQ(without_secrets("shop.db"), "shop.db");
}

}  // namespace
}  // namespace outbox
