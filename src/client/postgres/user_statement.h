// Statements of the user's: their placeholders, and their values as libpq sends and brings them, or
// as SQL text.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/row.h"

namespace outbox::postgres {

// What goes with a statement: bytes in binary, all else as text whose type the server
// infers from where it stands. libpq wants texts to end with a NUL, so these are copied, into one
// buffer; bytes are not, and must outlive this.
class UserValues {
 public:
  // Throws MisuseError for a text that PostgreSQL cannot store.
  explicit UserValues(std::span<const Parameter> values);
  UserValues(const UserValues&) = delete;
  UserValues& operator=(const UserValues&) = delete;

  int size() const { return static_cast<int>(types_.size()); }
  const std::vector<Oid>& types() const { return types_; }
  const char* const* values() const { return pointers_.data(); }
  const int* lengths() const { return lengths_.data(); }
  const int* formats() const { return formats_.data(); }

 private:
  void add(std::nullptr_t);
  void add(std::int64_t value);
  void add(double value);
  void add(std::string_view text);
  void add(Parameter::Bytes bytes);
  void add_text(std::string_view text);
  void push(const char* data, std::size_t size, Oid type, int format);

  std::string texts_;  // reserved at once: pointers_ lead into it
  std::vector<Oid> types_;
  std::vector<int> formats_;
  std::vector<const char*> pointers_;
  std::vector<int> lengths_;
};

// A value of the answer to a query, from its text.
Value value_of(const PGresult* result, int row, int column);

// The statement with $1, $2, ... in the place of each `?` that is a placeholder. Not those in
// quotes, identifiers, dollar quotes and comments, nor the operators `?|`, `?&` and `@?`; `??` is
// an operator's `?`. One that has a $1 of its own is left as it is, with all its `?`.
//
// `backslashes`: in every quote a backslash escapes what follows (standard_conforming_strings is
// off), not in E'...' alone.
std::string numbered(std::string_view sql, bool backslashes);

// The value as a literal: plain ASCII, and the same whatever the session's settings are. But for
// bytes it has no type, as a parameter has none: the server infers it from where it stands. Throws
// MisuseError for a text that PostgreSQL cannot store.
std::string literal(const Parameter& value);

// The statement with a literal in the place of each $1, $2, ... that is a placeholder. Throws
// MisuseError if it names one that there is none for, or leaves one out.
std::string filled_in(std::string_view sql, bool backslashes,
                      std::span<const std::string> literals);

}  // namespace outbox::postgres
