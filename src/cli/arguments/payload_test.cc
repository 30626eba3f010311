#include "cli/arguments/payload.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/errors.h"

namespace outbox::cli {
namespace {

std::string message_of(const std::vector<std::string>& headers) {
  try {
    parse_headers(headers);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(PayloadArgument, IsTextAFileOrStandardInput) {
  std::istringstream in("from\0in", std::ios::in);
  EXPECT_EQ(read_payload("{}", in), "{}");
  EXPECT_EQ(read_payload("", in), "");
  EXPECT_EQ(read_payload("-", in), "from");
  EXPECT_THROW(read_payload("@/no/such/file", in), UsageError);
  EXPECT_THROW(read_payload("@", in), UsageError);
  EXPECT_EQ(read_payload("@/dev/null", in), "");
}

TEST(PayloadArgument, IsNotReadBeyondTheLimit) {
  std::istringstream most(std::string(kMaxPayloadBytes, 'x'));
  EXPECT_EQ(read_payload("-", most).size(), kMaxPayloadBytes);
  std::istringstream in;
  EXPECT_THROW(read_payload("@/dev/zero", in), UsageError);
}

TEST(HeaderArguments, AreKeysAndValues) {
  EXPECT_EQ(parse_headers({"a=1", "b=x=y", "c="}), (Headers{{"a", "1"}, {"b", "x=y"}, {"c", ""}}));
  EXPECT_NE(message_of({"novalue"}).find("\"novalue\""), std::string::npos);
  EXPECT_EQ(message_of({"=secret"}).find("secret"), std::string::npos);
  EXPECT_EQ(message_of({"k=secret", "k=secret"}).find("secret"), std::string::npos);
}

}  // namespace
}  // namespace outbox::cli
