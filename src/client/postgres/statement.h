// What is sent to the server and what comes back, both in binary.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/postgres/libpq.h"
#include "outbox/clock.h"
#include "outbox/spi/store.h"

namespace outbox::postgres {

// A statement of the library's own; sql.h lists them. `purpose` completes
// "cannot ..." in an error. Statements are kept by the address of this object, and
// prepared unless the server has nothing to plan for them.
struct Sql {
  std::string_view purpose;
  std::string_view text;
  bool prepare = true;
};

inline constexpr Sql kBegin{"begin a transaction", "BEGIN"};
inline constexpr Sql kCommit{"commit the transaction", "COMMIT", false};  // a user's
inline constexpr Sql kSetUp{"set up a connection", ""};

// Bytes, where a plain string_view is text.
struct Bytes {
  std::string_view data;
};

// The values of one run of a statement, each with its type, in binary: quicker
// than text, and the same whatever the session's settings are. They are copied.
class Parameters {
 public:
  template <class... Args>
  explicit Parameters(const Args&... args) {
    (add(args), ...);
  }

  void add(std::int64_t value);
  void add(bool value);
  void add(std::string_view text);
  void add(Bytes bytes);
  void add(Time time);
  void add(std::span<const std::int64_t> values);
  void add(std::span<const std::optional<std::string_view>> texts);
  void add(std::span<const std::optional<Bytes>> values);
  void add(const char* text) { add(std::string_view(text)); }
  void add(const std::string& text) { add(std::string_view(text)); }
  template <class T>
  requires(std::integral<T> && !std::same_as<T, bool> &&
           !std::same_as<T, std::int64_t>) void add(T value) {
    add(static_cast<std::int64_t>(value));
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(std::span<const T>(values));
  }
  template <class T>
  void add(const std::optional<T>& value) {
    if (value) return add(*value);
    add_null(type_of(T{}));
  }

  int size() const { return static_cast<int>(types_.size()); }
  const Oid* types() const { return types_.data(); }

  // What libpq wants; good until the next change.
  struct Arrays {
    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;
  };
  Arrays arrays() const;

  // For what is sent as text: a value as a literal, and a statement with one in the place of
  // each $1, $2, ... Not of bytes and times, which nobody needs there. In UTF-8, whatever the
  // session's settings are but for array_nulls.
  std::string literal(int index) const;
  std::string written_into(std::string_view sql) const;

 private:
  static Oid type_of(std::int64_t);
  static Oid type_of(bool);
  static Oid type_of(std::string_view);
  static Oid type_of(const std::string& text) { return type_of(std::string_view(text)); }
  static Oid type_of(Bytes);
  static Oid type_of(Time);

  void add_null(Oid type);
  void begin(Oid type);
  void end();

  struct Slice {
    std::size_t at = 0;
    int length = -1;  // NULL
  };
  std::string data_;
  std::vector<Oid> types_;
  std::vector<Slice> slices_;
};

// The rows that a statement returned, in binary or, of Session::run_at_once(), as text:
// then there are integers and texts alone. Columns count from 0. Views last as long as the
// result.
class Result {
 public:
  explicit Result(ResultHandle handle) : handle_(std::move(handle)) {}

  int rows() const { return PQntuples(handle_.get()); }
  bool is_null(int row, int column) const { return PQgetisnull(handle_.get(), row, column) != 0; }

  // Integers of any size, and booleans. NULL is 0.
  std::int64_t integer(int row, int column) const;
  std::optional<std::int64_t> optional_integer(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional(integer(row, column));
  }

  // Text and bytes; empty if NULL.
  std::string_view text(int row, int column) const;
  std::optional<std::string_view> optional_text(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional(text(row, column));
  }

  // A timestamptz. Infinite ones are cut to what the library can store.
  Time time(int row, int column) const;
  std::optional<Time> optional_time(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional(time(row, column));
  }

  // How many rows an INSERT, UPDATE or DELETE changed.
  std::int64_t changed() const;

  PGresult* handle() const { return handle_.get(); }

 private:
  ResultHandle handle_;
};

}  // namespace outbox::postgres
