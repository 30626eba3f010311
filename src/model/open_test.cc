#include "outbox/open.h"

#include <gtest/gtest.h>

#include "base/url.h"
#include "outbox/error.h"
#include "outbox/memory.h"

namespace outbox {
namespace {

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
    EXPECT_NE(message.find("begins with no scheme"), std::string::npos) << message;
    EXPECT_NE(message.find("known are one:, two:, three:"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
  EXPECT_NE(refusal("one:x", {}).find("none was passed"), std::string::npos);
}

TEST(Open, RefusesSchemesThatMakeNoSense) {
  EXPECT_NE(refusal("one:x", {scheme({"one"}), scheme({"One"})}).find("two stores"),
            std::string::npos);
  EXPECT_NE(refusal("one:x", {{.names = {"one"}}}).find("without a function"), std::string::npos);
}

TEST(Open, PassesOnWhatTheSchemeThrows) {
  const Scheme away{.names = {"away"}, .open = [](const std::string&) -> std::shared_ptr<Store> {
                      throw RetryableError("nobody there");
                    }};
  EXPECT_THROW(open("away:x", {away}), RetryableError);
}

TEST(UrlScheme, OfAMessageShowsNoMoreThanTheScheme) {
  EXPECT_EQ(without_secrets("postgresql://u:p@h/db"), "postgresql://...");
  EXPECT_EQ(without_secrets("--bd=postgresql://u:p@h/db"), "--bd=postgresql://...");
  EXPECT_EQ(without_secrets("shop.db"), "shop.db");
}

}  // namespace
}  // namespace outbox
