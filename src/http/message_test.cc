#include "http/message.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "outbox/error.h"

namespace outbox::http {
namespace {

Request request(const std::string& method, const std::string& target) {
  return {.method = method, .target = parse_request_target(target)};
}

Handler says(std::string text) {
  return [text](const Request&) { return Response{.body = text}; };
}

TEST(Routes, CallTheHandlerOfPathAndMethod) {
  Routes routes;
  routes.add("GET", "/a", says("get a")).add("POST", "/a", says("post a"));
  routes.add("GET", "/b", says("get b"));
  EXPECT_EQ(routes.answer(request("GET", "/a?x=1")).body, "get a");
  EXPECT_EQ(routes.answer(request("POST", "/a")).body, "post a");
  EXPECT_EQ(routes.answer(request("GET", "/b")).body, "get b");
  EXPECT_EQ(routes.answer(request("HEAD", "/b")).body, "get b");
}

TEST(Routes, AnswerAnUnknownPathWith404) {
  const Response response = Routes().answer(request("GET", "/a%22"));
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.body.find("{\"error\":\"there is nothing at "), 0U);
}

TEST(Routes, AnswerAnotherMethodWith405AndThoseThatWork) {
  Routes routes;
  routes.add("GET", "/a", says("get a")).add("POST", "/a", says("post a"));
  const Response response = routes.answer(request("PUT", "/a"));
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.headers, (Fields{{"Allow", "GET, HEAD, POST"}}));
}

TEST(Routes, RefuseInvalidArguments) {
  Routes routes;
  routes.add("GET", "/a", says("get a"));
  EXPECT_THROW(routes.add("GET", "/a", says("again")), MisuseError);
  EXPECT_THROW(routes.add("GET", "a", says("no slash")), MisuseError);
  EXPECT_THROW(routes.add("GET", "", says("empty")), MisuseError);
  EXPECT_THROW(routes.add("", "/b", says("no method")), MisuseError);
  EXPECT_THROW(routes.add("GET", "/b", {}), MisuseError);
}

TEST(Message, HeadersAreFoundWithoutRegardToCase) {
  const Request with{.headers = {{"Content-Type", "a"}, {"content-type", "b"}}};
  EXPECT_EQ(with.header("CONTENT-TYPE"), "a");
  EXPECT_EQ(with.header("Content"), std::nullopt);
}

TEST(Message, AnErrorIsJsonWhateverItSays) {
  EXPECT_EQ(error_response(400, "a \"b\"").body, "{\"error\":\"a \\\"b\\\"\"}\n");
  EXPECT_EQ(error_response(400, "\xff").body, "{\"error\":\"\\\\xff\"}\n");
}

TEST(Date, IsWrittenAsInTheStandardsExample) {
  using namespace std::chrono;
  const Time time = sys_days{year{1994} / 11 / 6} + 8h + 49min + 37s + 999ms;
  EXPECT_EQ(http_date(time), "Sun, 06 Nov 1994 08:49:37 GMT");
}

using Parameters = std::vector<std::pair<std::string, std::string>>;

// The status and the message that a target is refused with.
std::pair<int, std::string> refusal(const std::string& target) {
  try {
    parse_request_target(target);
  } catch (const RequestError& error) {
    return {error.status(), error.what()};
  }
  return {0, "accepted"};
}

TEST(Target, HasAPathAndNoQuery) {
  const Target target = parse_request_target("/events");
  EXPECT_EQ(target.path, "/events");
  EXPECT_TRUE(target.parameters.empty());
}

TEST(Target, DecodesEscapesAndPlusInTheQuery) {
  const Target target = parse_request_target("/e?name=Ada+L%C3%B6w%2B&q=a%26b%3Dc");
  EXPECT_EQ(target.parameters, (Parameters{{"name", "Ada L\u00f6w+"}, {"q", "a&b=c"}}));
}

TEST(Target, DecodesEscapesButNotPlusInThePath) {
  EXPECT_EQ(parse_request_target("/a+b/%C3%B6%20/").path, "/a+b/\u00f6 /");
}

TEST(Target, KeepsRepeatedKeysInOrder) {
  const Target target = parse_request_target("/e?tag=b&x=&tag=a&tag");
  EXPECT_EQ(target.parameters, (Parameters{{"tag", "b"}, {"x", ""}, {"tag", "a"}, {"tag", ""}}));
  EXPECT_EQ(target.all("tag"), (std::vector<std::string>{"b", "a", ""}));
  EXPECT_EQ(target.find("x"), "");
  EXPECT_EQ(target.find("y"), std::nullopt);
  EXPECT_THROW(target.find("tag"), RequestError);
}

TEST(Target, SplitsAtTheFirstEqualsSignAndQuestionMarkOnly) {
  EXPECT_EQ(parse_request_target("/e?a=b=c&d=?").parameters,
            (Parameters{{"a", "b=c"}, {"d", "?"}}));
}

TEST(Target, SkipsEmptyParts) {
  EXPECT_EQ(parse_request_target("/e?&a=1&&b=2&").parameters, (Parameters{{"a", "1"}, {"b", "2"}}));
  EXPECT_TRUE(parse_request_target("/e?").parameters.empty());
  EXPECT_EQ(parse_request_target("/e?=v").parameters, (Parameters{{"", "v"}}));
}

TEST(Target, TakesTheAbsoluteFormWithoutItsHost) {
  EXPECT_EQ(parse_request_target("http://localhost:80/events?a=1").path, "/events");
  EXPECT_EQ(parse_request_target("HTTPS://localhost").path, "/");
  const Target target = parse_request_target("http://localhost?a=1");
  EXPECT_EQ(target.path, "/");
  EXPECT_EQ(target.find("a"), "1");
}

TEST(Target, RefusesWhatIsMalformed) {
  const std::vector<std::string> bad = {
      "",          "*",        "events",    "?a=1",      "host:443", "http://",   "http:///a",
      "ftp://h/a", "/%",       "/%4",       "/%zz",      "/e?a=%",   "/e?a=%1",   "/e?a=%g0",
      "/e?%=1",    "/e?a=%+1", "/e?a=%C3",  "/e?a=%FF",  "/%C3",     "/e?a=%00",  "/%00",
      "/%0A",      "/a b",     "/a\tb",     "/\xc3\xb6", "/a#b",     "/%2Fa",     "/a%2fb",
      "/..",       "/a/../b",  "/%2e%2E/a", "/./a",      "/.",       "/e?a=\x7f", "/e?a=%ED%A0%80"};
  for (const std::string& target : bad) {
    EXPECT_EQ(refusal(target).first, 400) << '"' << target << '"';
  }
}

TEST(Target, SaysWhatIsWrong) {
  EXPECT_EQ(refusal("/e?a=100%").second,
            "the query: \"%\" is not a valid escape; write a percent sign as %25");
  EXPECT_EQ(refusal("/a%zz").second,
            "the path: \"%zz\" is not a valid escape; write a percent sign as %25");
}

TEST(Target, IsLimitedInLengthAndParameters) {
  EXPECT_NO_THROW(parse_request_target("/" + std::string(kMaxTargetBytes - 1, 'a')));
  EXPECT_EQ(refusal("/" + std::string(kMaxTargetBytes, 'a')).first, 414);
  std::string query = "/e?a=0";
  for (std::size_t i = 1; i < kMaxParameters; ++i) query += "&a=" + std::to_string(i);
  EXPECT_EQ(parse_request_target(query).parameters.size(), kMaxParameters);
  EXPECT_EQ(refusal(query + "&a=1").first, 400);
}

TEST(Target, NamesTheParameterThatIsMissing) {
  const Target target = parse_request_target("/e?empty=&twice=1&twice=2&once=1");
  EXPECT_EQ(target.require("once"), "1");
  for (const auto& [key, message] :
       Parameters{{"name", "the parameter \"name\" is missing"},
                  {"empty", "the parameter \"empty\" is empty"},
                  {"twice", "the parameter \"twice\" is given 2 times; give it once"}}) {
    try {
      target.require(key);
      FAIL() << key;
    } catch (const RequestError& error) {
      EXPECT_EQ(error.status(), 400);
      EXPECT_EQ(error.what(), message);
    }
  }
}

}  // namespace
}  // namespace outbox::http
