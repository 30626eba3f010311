// Values as SQL text, and statements that are made of it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/sql_text.h"
#include "outbox/clock.h"
#include "outbox/row.h"
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

// A text in plain ASCII, without anything that a client library could take for a placeholder of its
// own: in hexadecimal unless it is harmless.
void append_ascii_literal(std::string& sql, std::string_view text);

// "2026-03-01 12:00:00.000000". Times that the database cannot store are cut to those
// that it can.
std::string datetime_text(Time time);

// A statement of the library's own whose length or shape depends on its values, with ? for a value
// or for a list of them, and {?name} for a part that is chosen or built.
struct SqlTemplate {
  std::string_view purpose;  // completes "cannot ..." in an error
  std::string_view text;
};

// SQL text for a {?name}, with the names that the context fills in.
struct SqlPart {
  std::string_view text;
};

// Such a statement with its values as literals:
//
//   constexpr SqlTemplate kForget{"forget lanes", "DELETE FROM {unblocked} WHERE id IN (?)"};
//   session.run(Built(kForget, context, ids));
class Built {
 public:
  template <class... Args>
  Built(const SqlTemplate& sql, const SqlContext& context, const Args&... args)
      : Built(sql.purpose, context) {
    fill(sql.text, args...);
  }

  // How texts are written: as append_literal() does, or append_ascii_literal().
  enum class Texts { utf8, ascii };

  // `purpose` completes "cannot ..." in an error; both must outlive the statement.
  Built(std::string_view purpose, const SqlContext& context, Texts texts = Texts::utf8)
      : purpose_(purpose), context_(context), texts_(texts) {}

  // SQL text, with the names that the context fills in.
  Built& sql(std::string_view text) {
    if (text.find('{') == std::string_view::npos) {
      text_ += text;
    } else {
      text_ += context_.expand(text);
    }
    return *this;
  }

  // The same with values, lists and parts in their places, in order: see SqlTemplate.
  template <class... Args>
  Built& fill(std::string_view text, const Args&... args) {
    (fill_next(text, args), ...);
    return sql(text);
  }

  template <class T>
  Built& value(const T& value) {
    append(value);
    return *this;
  }

  // Each value of the range, with commas between them.
  template <class Range>
  Built& list(const Range& values) {
    bool first = true;
    for (const auto& each : values) {
      if (!std::exchange(first, false)) text_ += ',';
      append(each);
    }
    return *this;
  }

  // "(a,b,c)", for VALUES.
  template <class First, class... Rest>
  Built& row(const First& first, const Rest&... rest) {
    text_ += '(';
    append(first);
    ((text_ += ',', append(rest)), ...);
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
  template <class T>
  void append(const T& value) {
    if constexpr (std::convertible_to<const T&, std::string_view>) {
      if (texts_ == Texts::ascii) return append_ascii_literal(text_, value);
    }
    append_literal(text_, value);
  }
  template <class T>
  void append(const std::optional<T>& value) {
    if (value) return append(*value);
    append_literal(text_, nullptr);
  }

  template <class T>
  void fill_next(std::string_view& text, const T& arg) {
    const std::size_t place = text.find('?');
    if constexpr (std::same_as<T, Built> || std::same_as<T, SqlPart>) {
      sql(text.substr(0, place - 1));  // without the {
      if constexpr (std::same_as<T, Built>) {
        add(arg);
      } else {
        sql(arg.text);
      }
      text.remove_prefix(text.find('}', place) + 1);
    } else {
      sql(text.substr(0, place));
      if constexpr (std::ranges::range<T> && !std::convertible_to<T, std::string_view>) {
        list(arg);
      } else {
        value(arg);
      }
      text.remove_prefix(place + 1);
    }
  }

  const std::string_view purpose_;
  const SqlContext& context_;
  const Texts texts_ = Texts::utf8;
  std::string text_;
};

// The value as a literal in plain ASCII, the same whatever the session's settings are.
std::string literal(const Parameter& value);

// The statement with a literal in the place of each `?` that is a placeholder: not of those in
// quotes and comments. Throws MisuseError unless there are as many.
//
// `backslashes`: in quotes a backslash escapes what follows (the SQL mode has no
// NO_BACKSLASH_ESCAPES).
std::string filled_in(std::string_view sql, bool backslashes,
                      std::span<const std::string> literals);

}  // namespace outbox::mysql
