// Values of the user's statements, as libpq sends and brings them.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "outbox/spi/store.h"

namespace outbox::postgres {

// What goes with a statement: bytes in binary, all else as text whose type the server
// infers from where it stands.
class UserValues {
 public:
  // Throws MisuseError for a text that PostgreSQL cannot store.
  explicit UserValues(std::span<const Value> values);

  int size() const { return static_cast<int>(types_.size()); }
  const std::vector<Oid>& types() const { return types_; }
  const char* const* values() const { return pointers_.data(); }
  const int* lengths() const { return lengths_.data(); }
  const int* formats() const { return formats_.data(); }

 private:
  void add(std::nullptr_t);
  void add(std::int64_t value);
  void add(double value);
  void add(const Blob& blob);
  void add(const std::string& text);
  void push(std::string text, Oid type, int format, bool is_null = false);

  std::vector<std::string> texts_;
  std::vector<Oid> types_;
  std::vector<int> formats_;
  std::vector<bool> nulls_;
  std::vector<const char*> pointers_;
  std::vector<int> lengths_;
};

// A value of the answer to a query, from its text.
Value value_of(const PGresult* result, int row, int column);

}  // namespace outbox::postgres
