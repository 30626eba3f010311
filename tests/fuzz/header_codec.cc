// The text of headers in the table: whatever decodes, encodes and decodes to
// the same; and it decodes if and only if another JSON library sees an object of
// strings in it.
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "outbox/error.h"
#include "outbox/spi/json_codec.h"
#include "target.h"

namespace outbox::fuzz {
namespace {

using Json = nlohmann::json;

const JsonCodec& codec() {
  static const auto instance = default_json_codec();
  return *instance;
}

bool is_object_of_strings(const Json& value) {
  if (!value.is_object()) return false;
  for (const auto& [key, item] : value.items()) {
    if (!item.is_string()) return false;
  }
  return true;
}

void check_accepted(std::string_view text, const Headers& headers) {
  const std::string encoded = codec().encode(headers);
  require(codec().decode(encoded) == headers, "encoded headers decode to the same");
  require(codec().encode(codec().decode(encoded)) == encoded, "the encoding is stable");
  if (text.find_first_not_of(" \t\r\n") == text.npos) {
    require(headers.empty(), "blank text means no headers");
    return;
  }
  const Json other = Json::parse(text, nullptr, false);
  if (other.is_null()) {
    require(headers.empty(), "null means no headers");
    return;
  }
  require(is_object_of_strings(other), "only an object of strings is accepted");
  require(other.size() == headers.size(), "no header is made up or lost");
  for (const auto& [key, value] : headers) {
    require(other.contains(key) && other[key].get<std::string>() == value, "values are the same");
  }
}

void check_refused(std::string_view text, std::string_view reason) {
  require(reason.find("at byte") != reason.npos, "the message says where");
  // The other library takes the last of duplicate keys, skips a byte-order update,
  // and takes a NUL for the end.
  if (reason.find("duplicate key") != reason.npos || text.starts_with("\xEF\xBB\xBF") ||
      text.find('\0') != text.npos) {
    return;
  }
  const Json other = Json::parse(text, nullptr, false);
  require(!other.is_null() && !is_object_of_strings(other), "nothing good is refused");
}

// As a value of a header, which must come back whatever it is.
void check_as_value(std::string_view text) {
  const Headers headers{{"key", std::string(text)}, {std::string(text), "value"}};
  try {
    const std::string encoded = codec().encode(headers);
    require(codec().decode(encoded) == headers, "what was encoded comes back");
  } catch (const MisuseError&) {
    require(!is_valid_utf8(text), "only what is not UTF-8 cannot be encoded");
  }
}

}  // namespace
}  // namespace outbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outbox::fuzz;
  const std::string_view text = text_of(data, size);
  try {
    check_accepted(text, codec().decode(text));
  } catch (const outbox::PermanentError& error) {
    check_refused(text, error.what());
  }
  check_as_value(text);
  return 0;
}
