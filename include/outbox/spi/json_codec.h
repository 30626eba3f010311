// How headers are stored as text in the table.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "outbox/event.h"
#include "outbox/export.h"

namespace outbox {

// Turns headers into a JSON object of strings and back. A store takes one in
// its options, for users who want their own JSON library to do it.
//
// Implementations must be thread-safe.
class OUTBOX_EXPORT JsonCodec {
 public:
  virtual ~JsonCodec() = default;

  // Returns empty text for no headers, which is stored as NULL.
  virtual std::string encode(const Headers& headers) const = 0;

  // Blank text and `null` mean no headers. If the text is anything other than one
  // object of strings, throws a PermanentError that says what is wrong and at which
  // byte.
  virtual Headers decode(std::string_view text) const = 0;
};

// The library's own codec. Strict: refuses trailing text, bad escapes, lone
// surrogates, invalid UTF-8, values that are not strings, and duplicate keys.
OUTBOX_EXPORT std::shared_ptr<const JsonCodec> default_json_codec();

}  // namespace outbox
