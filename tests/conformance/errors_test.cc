// What a caller is told when something fails: the kind says what to do, the text why.
#include <ostream>
#include <utility>

#include "network.h"
#include "support/stores.h"

namespace outbox::conformance {

using test::begun;
using test::contains;
using test::message_of;
using test::simple_event;

std::ostream& operator<<(std::ostream& out, Advice advice) {
  constexpr const char* kNames[] = {"retry", "give up", "fix the call", "fix the statement"};
  return out << kNames[static_cast<int>(advice)];
}

namespace {

// What the error of the work advises, and its text.
template <class Work>
std::pair<Advice, std::string> failure_of(Work work) {
  try {
    work();
  } catch (const RetryableError& error) {
    return {Advice::retry, error.what()};
  } catch (const MisuseError& error) {
    return {Advice::fix_the_call, error.what()};
  } catch (const DatabaseError& error) {
    return {Advice::fix_the_statement, error.what()};
  } catch (const PermanentError& error) {
    return {Advice::give_up, error.what()};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST_P(ErrorsTest, AWrongStatementIsCalledWhatItIsAlsoByTheCommitThatItPrevents) {
  const auto store = open_store();
  const std::string mine = backend().user_table("mine");
  run("CREATE TABLE " + mine + " (id int PRIMARY KEY)");
  run("INSERT INTO " + mine + " VALUES (1)");
  for (const WrongStatement& wrong : words().wrong_statements) {
    SCOPED_TRACE(wrong.sql);
    std::string sql = wrong.sql;
    if (const auto at = sql.find("{mine}"); at != std::string::npos) sql.replace(at, 6, mine);
    const auto connection = begun(*store);
    const auto [advice, text] = failure_of([&] { connection->execute(sql, wrong.values); });
    EXPECT_EQ(advice, wrong.advice) << text;
    EXPECT_TRUE(contains(text, wrong.code));
    EXPECT_FALSE(contains(text, wrong.not_said));

    if (!words().failure_ends_transaction) {
      EXPECT_NO_THROW(connection->commit());
      continue;
    }
    const auto [end, why] = failure_of([&] { connection->commit(); });
    EXPECT_EQ(end, wrong.advice) << "a loop that starts it over would never end: " << why;
    EXPECT_TRUE(contains(why, "rolled back"));
    EXPECT_TRUE(contains(why, wrong.code)) << "the cause";
    const bool again = wrong.advice == Advice::retry;
    EXPECT_TRUE(contains(why, again ? "start it over" : "it would fail again"));
  }
}

// The advice is for the library's own statements.
TEST_P(ErrorsTest, TheLibrarysOwnTableThatIsMissingIsToBeMigrated) {
  OUTBOX_NEEDS(backend().remote());
  const auto store = open_store();
  run("DROP TABLE {table}");
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  const auto [advice, text] = failure_of([&] { connection->insert({&event, 1}, {}); });
  EXPECT_EQ(advice, Advice::give_up);
  EXPECT_TRUE(contains(text, "outbox migrate up"));
}

// A password may stand in the URL. It must stand nowhere else: neither in what opening complains
// of, nor in what the schema's status says.
TEST_P(SecretsTest, ARefusedLoginAnUnknownServerAndAnInvalidUrlDoNotShowThePassword) {
  for (const SecretUrl& each : remote().urls_with(kSecret)) {
    const auto [advice, text] = failure_of([&] { open_at(each.url); });
    EXPECT_EQ(advice, each.advice) << each.url << ": " << text;
    EXPECT_EQ(text.find(kSecret), std::string::npos) << text;
    EXPECT_NE(text, "");
    const auto [also, status] = failure_of([&] { database().schema_status(each.url); });
    EXPECT_EQ(also, each.advice) << each.url << ": " << status;
    EXPECT_EQ(status.find(kSecret), std::string::npos) << status;
  }
}

// Characters that should have been written as %XX: what a client takes for the host or the
// database then is a part of the password.
TEST_P(SecretsTest, APasswordThatIsTornApartIsNotShownInPieces) {
  const std::string secret = kSecret;
  const std::string url = remote().url();
  for (const std::string& torn : {"a@" + secret, "a/" + secret, "1/" + secret, secret + "@b",
                                  "a@b@" + secret, "a?b@" + secret}) {
    const std::string login = url.substr(0, url.find('@')) + ":" + torn + url.substr(url.find('@'));
    const auto [advice, text] = failure_of([&] { open_at(login); });
    EXPECT_EQ(advice, Advice::fix_the_call) << text;
    EXPECT_EQ(text.find(kSecret), std::string::npos) << text;
    const auto [also, status] = failure_of([&] { database().schema_status(login); });
    EXPECT_EQ(also, Advice::fix_the_call) << status;
    EXPECT_EQ(status.find(kSecret), std::string::npos) << status;
  }
}

}  // namespace

// Where no such store is built.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ErrorsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SecretsTest);

}  // namespace outbox::conformance
