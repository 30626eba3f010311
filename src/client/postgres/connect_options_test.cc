#include "client/postgres/connect_options.h"

#include <gtest/gtest.h>

#include "outbox/error.h"

namespace outbox::postgres {
namespace {

std::string shown(const std::string& url) { return ConnectOptions(url).public_url(); }

TEST(ConnectOptions, ShowsAUrlWithoutItsSecrets) {
  EXPECT_EQ(shown("postgresql://shop:hunter2@db.example:5433/orders?sslmode=require"),
            "postgresql://shop@db.example:5433/orders?sslmode=require");
  EXPECT_EQ(shown("postgres://db?password=hunter2&sslpassword=hunter2"), "postgresql://db");
  EXPECT_EQ(shown("host=db user=shop password='hunter2'"), "postgresql://shop@db");
  EXPECT_EQ(shown("postgresql://u@h/d?p%61ssword=hunter2"), "postgresql://u@h/d");
  EXPECT_EQ(shown("postgresql://"), "postgresql://");
}

TEST(ConnectOptions, ShowsAUrlThatMeansTheSame) {
  for (const std::string url :
       {"postgresql://u%40x@h/a%20b", "postgresql://u@:5433/d",
        "postgresql://u@/d?host=a,b&port=1,2", "postgresql:///d?host=/var/run/pg",
        "postgresql://h/d?options=-csearch_path%3Dx%26y", "postgresql:///d?host=%3A%3A1"}) {
    EXPECT_EQ(shown(url), url);
  }
  EXPECT_EQ(shown("postgresql://u@a:1,b:2/d"), "postgresql://u@/d?host=a,b&port=1,2");
  EXPECT_EQ(shown("postgresql://[::1]:5433/d"), "postgresql:///d?host=%3A%3A1&port=5433");
  EXPECT_EQ(shown(shown("postgresql://a:1,b:2/d")), shown("postgresql://a:1,b:2/d"));
}

TEST(ConnectOptions, SaysNothingOfAUrlThatIsNotUnderstood) {
  try {
    const ConnectOptions target("postgresql://u:hunter2@[h/d");
    FAIL() << target.place();
  } catch (const MisuseError& error) {
    EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace outbox::postgres
