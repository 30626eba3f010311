// JSON values: whatever is read is written and read again alike, is what another JSON
// library sees in the text, and nothing is refused without a reason.
#include "outbox/typed/json_value.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "outbox/error.h"
#include "target.h"

namespace outbox::fuzz {
namespace {

void check_read(std::string_view text, const JsonValue& value) {
  const std::string written = value.dump();
  const JsonValue again = JsonValue::parse(written);
  require(again == value, "what was written is read alike");
  require(again.dump() == written, "the text is stable");
  require(!check_json(written), "what is written is JSON");
  // Numbers that no double holds are beyond the other library.
  const auto other = nlohmann::json::parse(text, nullptr, false);
  if (other.is_discarded()) return;
  require(nlohmann::json::parse(written, nullptr, false) == other, "the meaning is the same");
}

void check_refused(std::string_view text, std::string_view reason) {
  require(reason.find("at byte") != reason.npos, "the message says where");
  const bool beyond_grammar = reason.find("duplicate key") != reason.npos ||
                              reason.find("lone surrogate") != reason.npos ||
                              reason.find("nested deeper") != reason.npos;
  require(check_json(text).has_value() != beyond_grammar, "nothing good is refused");
}

}  // namespace
}  // namespace outbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outbox::fuzz;
  const std::string_view text = text_of(data, size);
  try {
    check_read(text, outbox::JsonValue::parse(text));
  } catch (const outbox::PermanentError& error) {
    check_refused(text, error.what());
  }
  return 0;
}
