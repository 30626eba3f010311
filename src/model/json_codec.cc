#include "outbox/spi/json_codec.h"

#include <cstddef>
#include <optional>

#include "base/json.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "outbox/error.h"

namespace outbox {
namespace {

// --- Encoding ---

// What is written here must be readable again, also when the headers did not
// come from an event, which has been checked.
void check_encodable(const std::string& key, const std::string& value) {
  if (!is_valid_utf8(key)) throw MisuseError("header key must be UTF-8: " + quote(key));
  if (!is_valid_utf8(value)) {
    throw MisuseError("value of header " + quote(key) + " must be UTF-8");
  }
}

// --- Decoding ---

[[noreturn]] void refuse(const std::string& what, std::size_t offset) {
  throw PermanentError("headers are not a JSON object of strings: " + what + " at byte " +
                       std::to_string(offset));
}

std::string read_string(JsonScanner& scanner) {
  std::string out;
  if (const std::optional<JsonFault> fault = scanner.read_string(out)) {
    refuse(std::string(fault->what), fault->offset);
  }
  return out;
}

// The text is JSON, so that only what is allowed there but not in headers is left to be refused.
Headers read_headers(JsonScanner scanner) {
  Headers headers;
  if (scanner.next() == 'n') return headers;  // null
  if (scanner.next() != '{') refuse("expected '{'", scanner.position());
  scanner.skip_bracket();
  while (scanner.next() != '}') {
    const std::size_t start = scanner.position();
    std::string key = read_string(scanner);
    if (scanner.next() != '"') refuse("expected a string", scanner.position());
    const auto [place, is_new] = headers.try_emplace(std::move(key), read_string(scanner));
    if (!is_new) refuse("duplicate key " + quote(place->first), start);
  }
  return headers;
}

class DefaultJsonCodec final : public JsonCodec {
 public:
  std::string encode(const Headers& headers) const override {
    std::string out;
    for (const auto& [key, value] : headers) {
      check_encodable(key, value);
      out += out.empty() ? '{' : ',';
      append_json_string(out, key);
      out += ':';
      append_json_string(out, value);
    }
    if (!out.empty()) out += '}';
    return out;
  }

  Headers decode(std::string_view text) const override {
    if (text.find_first_not_of(" \t\r\n") == text.npos) return {};
    if (const std::optional<JsonFault> fault = check_json(text)) {
      refuse(std::string(fault->what), fault->offset);
    }
    return read_headers(JsonScanner(text));
  }
};

}  // namespace

std::shared_ptr<const JsonCodec> default_json_codec() {
  static const auto codec = std::make_shared<const DefaultJsonCodec>();
  return codec;
}

}  // namespace outbox
