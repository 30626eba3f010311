// The check of JSON payloads against another JSON library: both accept the
// same texts, but for what that library cannot represent.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "outbox/error.h"
#include "outbox/event.h"
#include "target.h"

namespace outbox::fuzz {
namespace {

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

}  // namespace
}  // namespace outbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outbox::fuzz;
  const std::string_view text = text_of(data, size);
  const auto fault = outbox::check_json(text);
  require(is_event(text) == !fault, "an event is made of JSON and of nothing else");
  if (text.starts_with("\xEF\xBB\xBF")) {
    require(fault.has_value(), "a byte-order update is no JSON");
    return 0;
  }
  const bool other = nlohmann::json::accept(text);
  if (fault) {
    require(fault->offset <= size && !fault->what.empty(), "the fault has a place and a name");
    // The other library takes a NUL for the end.
    require(!other || text.find('\0') != text.npos, "nothing good is refused");
  } else {
    require(other || beyond_the_other(text), "nothing bad is accepted");
  }
  return 0;
}
