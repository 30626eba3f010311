#include "http/message.h"

#include <gtest/gtest.h>

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

TEST(Routes, RefuseWhatMakesNoSense) {
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

}  // namespace
}  // namespace outbox::http
