#include "base/url_scheme.h"

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

}  // namespace
}  // namespace outbox
