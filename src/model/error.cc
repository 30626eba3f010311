#include "outbox/error.h"

namespace outbox {

std::string_view to_string(DatabaseError::Kind kind) {
  using Kind = DatabaseError::Kind;
  switch (kind) {
    case Kind::unique_violation:
      return "unique_violation";
    case Kind::foreign_key_violation:
      return "foreign_key_violation";
    case Kind::not_null_violation:
      return "not_null_violation";
    case Kind::check_violation:
      return "check_violation";
    case Kind::invalid_data:
      return "invalid_data";
    case Kind::syntax_error:
      return "syntax_error";
    case Kind::undefined_object:
      return "undefined_object";
    case Kind::permission_denied:
      return "permission_denied";
    case Kind::other:
      break;
  }
  return "other";
}

}  // namespace outbox
