// Targets of HTTP requests: taken apart as promised, or refused.
#include "base/utf8.h"
#include "http/message.h"
#include "target.h"

namespace outbox::fuzz {
namespace {

std::string escaped(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kHex[byte >> 4U], kHex[byte & 15U]};
  }
  return out;
}

// The same target, every character escaped but for the slashes.
std::string rewritten(const http::Target& target) {
  std::string out;
  for (const char c : target.path) out += c == '/' ? "/" : escaped({&c, 1});
  char separator = '?';
  for (const auto& [key, value] : target.parameters) {
    out += separator + escaped(key) + '=' + escaped(value);
    separator = '&';
  }
  return out;
}

bool is_clean(std::string_view text) { return is_valid_utf8(text) && text.find('\0') == text.npos; }

void check_target(const http::Target& target) {
  const std::string_view path = target.path;
  require(path.starts_with('/'), "a path begins with a slash");
  require(is_clean(path) && find_control(path) == path.size(), "a path is clean text");
  require((target.path + "/").find("/../") == std::string::npos, "no path leads upwards");
  require((target.path + "/").find("/./") == std::string::npos, "no path has empty steps");
  require(target.parameters.size() <= http::kMaxParameters, "parameters are bounded");
  for (const auto& [key, value] : target.parameters) {
    require(is_clean(key) && is_clean(value), "parameters are clean text");
    require(!target.all(key).empty(), "what is there is found");
  }
  const std::string again = rewritten(target);
  if (again.size() > http::kMaxTargetBytes) return;
  const http::Target same = http::parse_request_target(again);
  require(same.path == target.path && same.parameters == target.parameters,
          "escaping changes nothing");
}

}  // namespace
}  // namespace outbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outbox::fuzz;
  try {
    check_target(outbox::http::parse_request_target(text_of(data, size)));
  } catch (const outbox::http::RequestError& error) {
    require(error.status() == 400 || error.status() == 414, "a bad target is the client's fault");
  }
  return 0;
}
