#include "http/message.h"

#include <algorithm>

#include "base/quote.h"
#include "outbox/spi/json_codec.h"

namespace outbox::http {

namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::optional<std::string_view> Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return std::nullopt;
}

Response error_response(int status, std::string_view message) {
  Response response{.status = status};
  // The codec writes objects of strings, and that is one.
  response.body = default_json_codec()->encode({{"error", printable(message)}}) + "\n";
  return response;
}

}  // namespace outbox::http
