// Values as SQL text, and statements that are made of it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/sql_context.h"
#include "outbox/clock.h"
#include "outbox/spi/store.h"

namespace outbox::mysql {

// Bytes, where a plain string_view is text.
struct Bytes {
  std::string_view data;
};

// Appends the value to a statement. A text is one in utf8mb4, whatever the session's
// character set, SQL mode (NO_BACKSLASH_ESCAPES) and collation are.
void append_literal(std::string& sql, std::nullptr_t);
void append_literal(std::string& sql, std::int64_t value);
void append_literal(std::string& sql, double value);
void append_literal(std::string& sql, std::string_view text);
void append_literal(std::string& sql, Bytes bytes);
void append_literal(std::string& sql, Time time);  // a DATETIME(6) in UTC
inline void append_literal(std::string& sql, const char* text) {
  append_literal(sql, std::string_view(text));
}
inline void append_literal(std::string& sql, const std::string& text) {
  append_literal(sql, std::string_view(text));
}
inline void append_literal(std::string& sql, const Blob& blob) {
  append_literal(sql, Bytes{blob.data});
}
template <class T>
requires(std::integral<T> && !std::same_as<T, std::int64_t>) void append_literal(std::string& sql,
                                                                                 T value) {
  append_literal(sql, static_cast<std::int64_t>(value));
}
template <class T>
void append_literal(std::string& sql, const std::optional<T>& value) {
  if (value) return append_literal(sql, *value);
  append_literal(sql, nullptr);
}

// "2026-03-01 12:00:00.000000". Times that the database cannot store are cut to those
// that it can.
std::string datetime_text(Time time);

// A statement of the library's own whose shape depends on its values:
//
//   Built statement("update events as done", context);
//   statement.sql("UPDATE {table} SET status = 1 WHERE seq IN (").list(seqs).sql(")");
//   session.run(statement);
class Built {
 public:
  // `purpose` completes "cannot ..." in an error; both must outlive the statement.
  Built(std::string_view purpose, const SqlContext& context)
      : purpose_(purpose), context_(context) {}

  // SQL text, with the names that the context fills in.
  Built& sql(std::string_view text) {
    if (text.find('{') == std::string_view::npos) {
      text_ += text;
    } else {
      text_ += context_.expand(text);
    }
    return *this;
  }

  template <class T>
  Built& value(const T& value) {
    append_literal(text_, value);
    return *this;
  }

  // Each value of the range, with commas between them.
  template <class Range>
  Built& list(const Range& values) {
    bool first = true;
    for (const auto& each : values) {
      if (!std::exchange(first, false)) text_ += ',';
      append_literal(text_, each);
    }
    return *this;
  }

  // "(a,b,c)", for VALUES.
  template <class First, class... Rest>
  Built& row(const First& first, const Rest&... rest) {
    text_ += '(';
    append_literal(text_, first);
    ((text_ += ',', append_literal(text_, rest)), ...);
    text_ += ')';
    return *this;
  }

  // The text of another one, as it is.
  Built& add(const Built& other) {
    text_ += other.text_;
    return *this;
  }

  std::string_view purpose() const { return purpose_; }
  const std::string& text() const { return text_; }

 private:
  const std::string_view purpose_;
  const SqlContext& context_;
  std::string text_;
};

}  // namespace outbox::mysql
