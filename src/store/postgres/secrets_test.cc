// A password may stand in the URL. It must stand nowhere else.
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

constexpr const char* kSecret = "tOpSeCrEt";

class PostgresSecretsTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    server_ = "127.0.0.1:" + std::to_string(test::port_of(test::postgres_url()));
  }

  // What opening the URL complains of, and what a store that forgives would say.
  template <class E>
  void expect_silent(const std::string& url) {
    const std::string message = message_of<E>([&] { open_store_at(url); });
    EXPECT_EQ(message.find(kSecret), std::string::npos) << message;
    EXPECT_NE(message, "");
    const std::string status = message_of<E>([&] { schema_status(url, table()); });
    EXPECT_EQ(status.find(kSecret), std::string::npos) << status;
  }

  std::string server_;
};

TEST_F(PostgresSecretsTest, ARefusedLoginDoesNotShowThePassword) {
  expect_silent<PermanentError>("postgresql://nobody:" + std::string(kSecret) + "@" + server_ +
                                "/outbox");
  expect_silent<PermanentError>(
      "user=nobody password=" + std::string(kSecret) +
      " host=127.0.0.1 dbname=outbox port=" + std::to_string(test::port_of(test::postgres_url())));
}

TEST_F(PostgresSecretsTest, AnUnknownHostPortOrDatabaseDoesNotShowThePassword) {
  const std::string login = "postgresql://postgres:" + std::string(kSecret) + "@";
  expect_silent<RetryableError>(login + "no-such-host.invalid/outbox");
  expect_silent<RetryableError>(login + "127.0.0.1:1/outbox");
  expect_silent<PermanentError>(login + server_ + "/no_such_database");
  expect_silent<PermanentError>(login + server_ + "/outbox?sslmode=nonsense");
}

TEST_F(PostgresSecretsTest, AUrlThatMakesNoSenseDoesNotShowThePassword) {
  const std::string login = "postgresql://postgres:" + std::string(kSecret) + "@";
  expect_silent<MisuseError>(login + server_ + "/outbox?no_such_parameter=1");
  expect_silent<MisuseError>(login + server_ + "/outbox?password");
  expect_silent<MisuseError>(login + "[::1/outbox");
  expect_silent<MisuseError>("postgresql://postgres:%zz" + std::string(kSecret) + "@" + server_);
  expect_silent<MisuseError>("password=" + std::string(kSecret) + " no_such_setting=1");
  expect_silent<MisuseError>("password='" + std::string(kSecret));
  expect_silent<MisuseError>("host=127.0.0.1 " + std::string(kSecret));
  expect_silent<MisuseError>("mysql://postgres:" + std::string(kSecret) + "@" + server_);
}

TEST_F(PostgresSecretsTest, AUrlInTheWrongPlaceOrForAnotherStoreDoesNotShowThePassword) {
  const std::string secret(kSecret);
  const std::string port = " port=" + std::to_string(test::port_of(test::postgres_url()));
  expect_silent<MisuseError>("host=127.0.0.1 user=postgres dbname=postgresql://u:" + secret +
                             "@h/d" + port);
  expect_silent<MisuseError>("host=127.0.0.1 user=postgres dbname='host=h password=" + secret +
                             "'" + port);
  expect_silent<MisuseError>("redis://:" + secret + "@" + server_ + "/0");
  expect_silent<MisuseError>("sqlite:" + secret + ".db");
  expect_silent<MisuseError>("postgresql://a:" + secret + "@h1,b:" + secret + "@h2/outbox");
  expect_silent<RetryableError>("postgresql://postgres@127.0.0.1:1/outbox?password=" + secret);
  expect_silent<RetryableError>("postgresql://postgres@127.0.0.1:1/outbox?sslpassword=" + secret);
}

// Characters that should have been written as %XX: what libpq takes for the host or
// the database then is a part of the password.
TEST_F(PostgresSecretsTest, APasswordThatIsTornApartIsNotShownInPieces) {
  for (const std::string& torn : {"a@" + std::string(kSecret), "a/" + std::string(kSecret),
                                  "1/" + std::string(kSecret), std::string(kSecret) + "@b",
                                  "a@b@" + std::string(kSecret), "a?b@" + std::string(kSecret)}) {
    expect_silent<MisuseError>("postgresql://postgres:" + torn + "@" + server_ + "/outbox");
  }
}

TEST_F(PostgresSecretsTest, AnAtSignElsewhereIsNobodysSecret) {
  EXPECT_NO_THROW(open_store_at(test::postgres_url() + "?application_name=me@home"));
  EXPECT_NO_THROW(open_store_at("user=postgres host=127.0.0.1 dbname=outbox password=a@b/c port=" +
                                std::to_string(test::port_of(test::postgres_url()))));
}

TEST_F(PostgresSecretsTest, NeitherDescriptionNorErrorsNorLogOfAStoreShowThePassword) {
  const auto store =
      open_store_at("postgresql://postgres:" + std::string(kSecret) + "@" + server_ + "/outbox");
  EXPECT_EQ(store->description().find(kSecret), std::string::npos);
  const auto connection = begun(*store);
  const std::string message =
      message_of<DatabaseError>([&] { connection->execute("SELECT nonsense", {}); });
  EXPECT_EQ(message.find(kSecret), std::string::npos);
  EXPECT_FALSE(log_.contains(kSecret));
}

}  // namespace
}  // namespace outbox::postgres
