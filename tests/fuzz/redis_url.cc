// URLs of Redis servers, and what such a server may say is wrong.
#include "client/redis/connect_options.h"
#include "client/redis/hiredis.h"
#include "outbox/error.h"
#include "target.h"

namespace outbox::fuzz {
namespace {

std::string refusal_of(const std::string& url) {
  try {
    const redis::ConnectOptions target = redis::ConnectOptions::parse(url);
    require(target.socket.empty() != target.host.empty(), "it is a host or a socket");
    require(!target.socket.empty() || (target.port > 0 && target.port < 65'536), "ports are ports");
    require(target.database >= 0, "databases are not negative");
    require(!target.user || target.password, "a user has a password");
    return {};
  } catch (const MisuseError& error) {
    return error.what();
  }
}

void check_url(std::string_view text) {
  const std::string refusal = refusal_of(std::string(text));
  if (refusal.empty()) return;
  // Nothing of the URL is shown: there are two texts, whatever it was.
  static const std::string unknown = refusal_of("x"), no_password = refusal_of("redis://u@h");
  require(refusal == unknown || refusal == no_password, "a refusal shows nothing of the URL");
}

void check_error(std::string_view text) {
  require(redis::error_code(text).find(' ') == std::string_view::npos, "a code is a word");
  for (const char c : redis::error_text(text)) {
    require(static_cast<unsigned char>(c) >= ' ', "an error cannot forge a line");
  }
}

}  // namespace
}  // namespace outbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outbox::fuzz;
  const std::string_view text = text_of(data, size);
  check_url(text);
  check_error(text);
  return 0;
}
