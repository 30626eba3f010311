// Payloads of events, JSON values, and the text of headers in the table, against another JSON
// library: it sees the same in a text, but for what it cannot represent. Each parser gets the whole
// input.
#include "base/json.h"

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "outbox/error.h"
#include "outbox/event.h"
#include "outbox/spi/json_codec.h"
#include "outbox/typed/json_value.h"
#include "target.h"

namespace outbox::fuzz {
namespace {

using Json = nlohmann::json;

// Escaped lone surrogates and numbers beyond a double are JSON by its grammar;
// the other library refuses them.
bool beyond_the_other(std::string_view text) {
  return text.find("\\u") != text.npos || text.find_first_of("eE") != text.npos ||
         text.size() > 300;
}

bool is_event(std::string_view text) {
  try {
    const Event event = make_event({.type = "T", .payload = json(std::string(text))});
    require(event.payload() == text, "the payload is kept byte for byte");
    return true;
  } catch (const MisuseError& error) {
    require(std::string_view(error.what()).find("payload") != std::string_view::npos,
            "the message names the field");
    return false;
  }
}

// An event takes what the other library takes.
void check_payload(std::string_view text) {
  const auto fault = check_json(text);
  require(is_event(text) == !fault, "an event is made of JSON and of nothing else");
  if (text.starts_with("\xEF\xBB\xBF")) {
    require(fault.has_value(), "a byte-order mark is no JSON");
    return;
  }
  const bool other = Json::accept(text);
  if (fault) {
    require(fault->offset <= text.size() && !fault->what.empty(),
            "the fault has a place and a name");
    // The other library takes a NUL for the end.
    require(!other || text.find('\0') != text.npos, "nothing good is refused");
  } else {
    require(other || beyond_the_other(text), "nothing bad is accepted");
  }
}

// Whatever is read is written and read again alike.
void check_value(std::string_view text, const JsonValue& value) {
  const std::string written = value.dump();
  const JsonValue again = JsonValue::parse(written);
  require(again == value, "what was written is read alike");
  require(again.dump() == written, "the text is stable");
  require(!check_json(written), "what is written is JSON");
  // Numbers that no double holds are beyond the other library.
  const auto other = Json::parse(text, nullptr, false);
  if (other.is_discarded()) return;
  require(Json::parse(written, nullptr, false) == other, "the meaning is the same");
}

void check_refused_value(std::string_view text, std::string_view reason) {
  require(reason.find("at byte") != reason.npos, "the message says where");
  const bool beyond_grammar = reason.find("duplicate key") != reason.npos ||
                              reason.find("lone surrogate") != reason.npos ||
                              reason.find("nested deeper") != reason.npos;
  require(check_json(text).has_value() != beyond_grammar, "nothing good is refused");
}

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

// Whatever decodes, encodes and decodes to the same; and it decodes if and only if the other
// library sees an object of strings in it.
void check_headers(std::string_view text, const Headers& headers) {
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

void check_refused_headers(std::string_view text, std::string_view reason) {
  require(reason.find("at byte") != reason.npos, "the message says where");
  // The other library takes the last of duplicate keys, skips a byte-order mark,
  // and takes a NUL for the end.
  if (reason.find("duplicate key") != reason.npos || text.starts_with("\xEF\xBB\xBF") ||
      text.find('\0') != text.npos) {
    return;
  }
  const Json other = Json::parse(text, nullptr, false);
  require(!other.is_null() && !is_object_of_strings(other), "nothing good is refused");
}

// As a value of a header, which must come back whatever it is.
void check_as_header(std::string_view text) {
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
  check_payload(text);
  try {
    check_value(text, outbox::JsonValue::parse(text));
  } catch (const outbox::PermanentError& error) {
    check_refused_value(text, error.what());
  }
  try {
    check_headers(text, codec().decode(text));
  } catch (const outbox::PermanentError& error) {
    check_refused_headers(text, error.what());
  }
  check_as_header(text);
  return 0;
}
