// A password may stand in the URL. It must stand nowhere else.
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

constexpr const char* kSecret = "tOpSeCrEt";

class MysqlSecretsTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    server_ = "127.0.0.1:" + std::to_string(test::port_of(test::mysql_url()));
  }

  template <class E>
  void expect_silent(const std::string& url) {
    const std::string message = message_of<E>([&] { open_store_at(url); });
    EXPECT_EQ(message.find(kSecret), std::string::npos) << message;
    EXPECT_NE(message, "");
    const std::string status = message_of<E>([&] { schema_status(url); });
    EXPECT_EQ(status.find(kSecret), std::string::npos) << status;
  }

  const std::string login_ = "mysql://root:" + std::string(kSecret) + "@";
  std::string server_;
};

TEST_F(MysqlSecretsTest, ARefusedLoginDoesNotShowThePassword) {
  expect_silent<PermanentError>("mysql://nobody:" + std::string(kSecret) + "@" + server_ +
                                "/outbox");
}

TEST_F(MysqlSecretsTest, AnUnknownHostOrPortDoesNotShowThePassword) {
  expect_silent<RetryableError>(login_ + "no-such-host.invalid/outbox");
  expect_silent<RetryableError>(login_ + "127.0.0.1:1/outbox");
}

TEST_F(MysqlSecretsTest, AUrlThatMakesNoSenseDoesNotShowThePassword) {
  expect_silent<MisuseError>(login_ + server_ + "/outbox?no_such_parameter=1");
  expect_silent<MisuseError>(login_ + server_ + "/outbox?ssl_mode=nonsense");
  expect_silent<MisuseError>(login_ + "[::1/outbox");
  expect_silent<MisuseError>("mysql://root:%zz" + std::string(kSecret) + "@" + server_ + "/outbox");
  expect_silent<MisuseError>("postgresql://root:" + std::string(kSecret) + "@" + server_ + "/a");
}

TEST_F(MysqlSecretsTest, AUrlInTheWrongPlaceOrForAnotherStoreDoesNotShowThePassword) {
  const std::string secret(kSecret);
  expect_silent<MisuseError>("mysql://root@" + server_ + "/outbox?password=" + secret);
  expect_silent<MisuseError>("host=127.0.0.1 user=root password=" + secret);
  expect_silent<MisuseError>("redis://:" + secret + "@" + server_ + "/0");
  expect_silent<MisuseError>("mysql://a:" + secret + "@h1,b:" + secret + "@h2/outbox");
  expect_silent<RetryableError>("mysql://root:%74OpSeCrEt@127.0.0.1:1,127.0.0.1:2/outbox");
}

// Characters that should have been written as %XX.
TEST_F(MysqlSecretsTest, APasswordThatIsTornApartIsNotShownInPieces) {
  for (const std::string& torn : {"a@" + std::string(kSecret), "a/" + std::string(kSecret),
                                  "1/" + std::string(kSecret), std::string(kSecret) + "@b",
                                  "a@b@" + std::string(kSecret), "a?b@" + std::string(kSecret)}) {
    expect_silent<MisuseError>("mysql://root:" + torn + "@" + server_ + "/outbox");
  }
}

}  // namespace
}  // namespace outbox::mysql
