// What is sent to the server and what comes back.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "client/mysql/libmariadb.h"
#include "client/mysql/literal.h"
#include "outbox/clock.h"
#include "outbox/spi/store.h"

namespace outbox::mysql {

// A statement of the library's own, with ? for the values (and in no other place);
// sql.h lists them. `purpose` completes "cannot ..." in an error. Statements are kept by
// the address of this object, and prepared unless the server has nothing to plan for
// them.
struct Sql {
  std::string_view purpose;
  std::string_view text;
  bool prepare = true;
};

// The values of one run of a statement. They are copied, but for those of a user.
class Parameters {
 public:
  using Held = std::variant<std::nullptr_t, std::int64_t, double, std::string, Blob, Time,
                            std::string_view, Bytes>;

  template <class... Args>
  explicit Parameters(const Args&... args) {
    values_.reserve(sizeof...(args));
    add_all(args...);
  }

  // Those of a user: texts and bytes must outlive this.
  static Parameters of(std::span<const Parameter> values);

  void add(std::nullptr_t) { values_.emplace_back(nullptr); }
  void add(double value) { values_.emplace_back(value); }
  void add(std::string_view text) { values_.emplace_back(std::string(text)); }
  void add(Bytes bytes) { values_.emplace_back(Blob{std::string(bytes.data)}); }
  void add(Time time) { values_.emplace_back(time); }
  void add(const char* text) { add(std::string_view(text)); }
  void add(const std::string& text) { add(std::string_view(text)); }
  template <std::integral T>
  void add(T value) {
    values_.emplace_back(static_cast<std::int64_t>(value));
  }
  template <class T>
  void add(const std::optional<T>& value) {
    if (value) return add(*value);
    add(nullptr);
  }

  template <class... Args>
  void add_all(const Args&... args) {
    (add(args), ...);
  }

  void reserve(std::size_t size) { values_.reserve(size); }
  std::size_t size() const { return values_.size(); }

  // How many bytes they take on their way, at most.
  std::size_t bytes() const;

  // As literals in place of the ? of a text of the library's own.
  std::string into(std::string_view text) const;

  // What libmariadb wants; points into these parameters.
  class Binds {
   public:
    explicit Binds(std::span<const Held> values);
    MYSQL_BIND* data() { return binds_.data(); }

   private:
    std::vector<MYSQL_BIND> binds_;
    std::vector<MYSQL_TIME> times_;
  };
  Binds binds() const { return Binds(values_); }

 private:
  std::vector<Held> values_;
};

// What a statement returned, all of it. Columns count from 0. Views last as long as
// the result.
class Result {
 public:
  // Whether the names of the columns are kept.
  enum class Names { leave, keep };

  // Of what was sent as text; `rows` is null if it returned none.
  Result(MYSQL* connection, MYSQL_RES* rows, Names names);

  // Of a prepared statement, whose result is stored (with STMT_ATTR_UPDATE_MAX_LENGTH).
  Result(MYSQL_STMT* statement, Names names);

  int rows() const { return static_cast<int>(columns() == 0 ? 0 : cells_.size() / columns()); }
  std::size_t columns() const { return is_bytes_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  bool is_null(int row, int column) const {
    return std::holds_alternative<std::nullptr_t>(cell(row, column));
  }

  // Integers of any size, booleans, and what sums make of them. NULL is 0.
  std::int64_t integer(int row, int column) const;
  std::optional<std::int64_t> optional_integer(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional(integer(row, column));
  }

  // Text and bytes; empty if NULL.
  std::string_view text(int row, int column) const;

  std::optional<std::string_view> optional_text(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional(text(row, column));
  }

  // A DATETIME, which is taken for UTC. NULL is 1970, and a zero date the earliest.
  Time time(int row, int column) const;
  std::optional<Time> optional_time(int row, int column) const {
    return is_null(row, column) ? std::nullopt : std::optional(time(row, column));
  }

  // For a user: numbers, bytes, and all else as text.
  Value value(int row, int column) const;

  // How many rows an INSERT or DELETE changed, and an UPDATE found, changed or not
  // (CLIENT_FOUND_ROWS, which the library's own connections have).
  std::int64_t changed() const { return changed_; }

  // The first number that AUTO_INCREMENT gave to the rows of an INSERT.
  std::int64_t insert_id() const { return insert_id_; }

 private:
  struct Slice {
    std::size_t at;
    std::size_t length;
  };
  using Cell = std::variant<std::nullptr_t, std::int64_t, double, Slice>;

  // Throws PermanentError if the answer has no such row or column: a proxy, or a server that
  // only resembles one of those we know, may leave out what was asked for.
  const Cell& cell(int row, int column) const;
  void describe_columns(MYSQL_RES* metadata, Names names);
  void add_text(std::string_view text);
  void add_integer(std::int64_t value, bool is_unsigned);

  std::vector<bool> is_bytes_;      // by column
  std::vector<std::string> names_;  // likewise, if they are kept
  std::vector<Cell> cells_;
  std::string data_;
  std::int64_t changed_ = 0;
  std::int64_t insert_id_ = 0;
};

}  // namespace outbox::mysql
