#include "base/url.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

TEST(UrlScheme, WhatMayHoldAPasswordIsNotShown) {
  const std::pair<const char*, const char*> cases[] = {
      {"postgresql://u:secret@h/d", "postgresql://..."},
      {"mysql://h/d?password=secret", "mysql://..."},
      {"redis://:secret@h", "redis://..."},
      {"postgresql://a:secret@h1,b:secret@h2/d", "postgresql://..."},
      {"postgresql://u:%73ecret@h/d", "postgresql://..."},
      {"--dbx=postgresql://u:secret@h/d", "--dbx=postgresql://..."},
      {"host=h password=secret dbname=d", "host=h password=..."},
      {"host=h PASSWORD = 'my secret' dbname=d", "host=h PASSWORD =..."},
      {"sslpassword=secret", "sslpassword=..."},
      {"Server=h;Pwd=secret;", "Server=h;Pwd=..."},
      {"user:secret@host/d", "user:..."},
      {"file:shop.db?key=secret", "file:shop.db?key=..."},
      {"file:shop.db?cache=shared&hexkey=secret", "file:shop.db?cache=shared&hexkey=..."},
  };
  for (const auto& [text, shown] : cases) EXPECT_EQ(without_secrets(text), shown);
}

TEST(UrlScheme, WhatHoldsNoneIsShownAsItIs) {
  for (const char* text : {"", "shop.db", "/var/lib/shop.db", "sqlite:shop.db", "me@home.db",
                           "--limit=5", "host=h dbname=d", "file:shop.db", "c:shop.db"}) {
    EXPECT_EQ(without_secrets(text), text);
  }
}

TEST(UrlScheme, SettingsWithAPasswordAreRecognised) {
  EXPECT_TRUE(has_password_setting("host=h password=secret"));
  EXPECT_FALSE(has_password_setting("password.db"));
  EXPECT_FALSE(has_password_setting("a=b.db"));
}

TEST(Url, HasParts) {
  const Url full =
      parse_url("MYSQL://shop:s%40c#t@db.example:6380,[fe80::1%25eth0]/a%2Fb?x=%26&y").value();
  EXPECT_EQ(full.scheme, "mysql");
  EXPECT_EQ(full.user, "shop");
  EXPECT_EQ(full.password, "s@c#t");
  ASSERT_EQ(full.hosts.size(), 2u);
  EXPECT_EQ(full.hosts[0].name, "db.example");
  EXPECT_EQ(full.hosts[0].port, 6380);
  EXPECT_EQ(full.hosts[1].name, "fe80::1%eth0");
  EXPECT_EQ(full.hosts[1].port, 0);
  EXPECT_EQ(full.path, "a/b");
  EXPECT_FALSE(full.has_deep_path);
  ASSERT_EQ(full.query.size(), 2u);
  EXPECT_EQ(full.query[0].second, "&");
  EXPECT_EQ(full.query[1].first, "y");

  const Url least = parse_url("x1://").value();
  EXPECT_FALSE(least.user);
  ASSERT_EQ(least.hosts.size(), 1u);
  EXPECT_EQ(least.hosts[0].name, "");
  EXPECT_EQ(parse_url("xx://[fe80::1%eth0]:7").value().hosts[0].name, "fe80::1%eth0");
  EXPECT_TRUE(parse_url("xx:///a/b").value().has_deep_path);
  EXPECT_EQ(parse_url("xx://:secret@h").value().user, "");
  EXPECT_FALSE(parse_url("xx://shop@h").value().password);
}

TEST(Url, IsRefusedWhereAPasswordMayBeTorn) {
  for (const char* text : {"", "x", "xx:h", "xx:/h", "xx://u:a@b@h", "xx://u:a/b@h", "xx://u:1?b@h",
                           "xx://h/a#b", "xx://h?a#b", "xx://u:%zz@h", "xx://u:%00@h", "xx://h:",
                           "xx://h:0", "xx://h:65536", "xx://h:1x", "xx://[::1", "xx://[::1]x"}) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
}

TEST(Percent, WhatIsEncodedComesBack) {
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  const std::string encoded = percent_encoded(every);
  EXPECT_EQ(percent_decoded(encoded), every);
  EXPECT_EQ(encoded.find_first_of("@:?#&= \n"), std::string::npos) << encoded;
}

TEST(Percent, EncodesOnlyWhatMustBe) {
  EXPECT_EQ(percent_encoded("a-Z_0.9~,/"), "a-Z_0.9~,/");
  EXPECT_EQ(percent_encoded("p@ss"), "p%40ss");
}

TEST(Percent, RefusesWhatIsNotHexadecimal) {
  for (const char* text : {"%", "%4", "a%4", "%4g", "%g4", "%-1", "% 1"}) {
    EXPECT_EQ(percent_decoded(text), std::nullopt) << text;
  }
  EXPECT_EQ(percent_decoded("%4a%4A"), "JJ");
}

}  // namespace
}  // namespace outbox
