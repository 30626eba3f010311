// A JSON value to inspect and change, for the upcasts of describe.h.
//
//   outbox::JsonValue old = outbox::JsonValue::parse(R"({"amount":1999})");
//   if (auto amount = old.take("amount")) old.set("cents", *std::move(amount));
//   old.dump();                                                // {"cents":1999}
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "outbox/export.h"

namespace outbox {

// parse() refuses values nested deeper.
inline constexpr std::size_t kMaxJsonDepth = 128;

// Null, a boolean, a number, a string, an array or an object. Numbers are kept as they
// are written, so that 64-bit integers and decimals survive; objects keep their order.
// Values are equal if they are written alike: 1 and 1.0 are not.
//
// Accessors throw a PermanentError that says what was found and what was wanted if the
// value is of another kind: the text is to blame, and will not get better.
//
// A regular value type; not thread-safe while it is being changed.
class OUTBOX_EXPORT JsonValue {
 public:
  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };
  struct Member;

  // NOLINTBEGIN(google-explicit-constructor)
  JsonValue();  // null
  JsonValue(std::nullptr_t);
  JsonValue(std::string text);
  JsonValue(std::string_view text);
  JsonValue(const char* text);
  template <std::same_as<bool> B>
  JsonValue(B value) : JsonValue(Boolean{value}) {}
  template <std::integral I>
  requires(!std::same_as<I, bool> && !std::same_as<I, char>) JsonValue(I value)
      : JsonValue(Number{std::to_string(value)}) {}
  // A character is neither a number nor text: say which you mean.
  template <std::same_as<char> C>
  JsonValue(C) = delete;
  // Throws MisuseError unless it is finite: JSON has no other numbers.
  JsonValue(double value);
  // NOLINTEND(google-explicit-constructor)

  JsonValue(const JsonValue& other);
  JsonValue(JsonValue&& other) noexcept;
  JsonValue& operator=(const JsonValue& other);
  JsonValue& operator=(JsonValue&& other) noexcept;
  ~JsonValue();

  static JsonValue array();
  static JsonValue array(std::vector<JsonValue> items);
  static JsonValue object();
  // Throws MisuseError if a key occurs twice.
  static JsonValue object(std::vector<Member> members);
  // A number of any size and precision, as JSON writes it. Throws MisuseError if it is not
  // one.
  static JsonValue number(std::string text);

  // Strict: one value by RFC 8259 in UTF-8, no key twice in an object, no lone escaped
  // surrogates, not deeper than kMaxJsonDepth. Throws a PermanentError that says
  // what is wrong and at which byte.
  static JsonValue parse(std::string_view text);

  // Without spaces. parse() returns the same value again. Throws MisuseError if a string
  // in it is not UTF-8.
  std::string dump() const;

  Kind kind() const noexcept { return static_cast<Kind>(data_.index()); }
  bool is_null() const noexcept { return kind() == Kind::null; }

  // The value, if it is of that kind. An integer is a number without fraction and
  // exponent that fits.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_double() const;
  const std::string& as_string() const;
  const std::string& as_number() const;  // as it is written

  // --- arrays ---

  const std::vector<JsonValue>& items() const;
  const JsonValue& at(std::size_t index) const;
  JsonValue& at(std::size_t index);
  JsonValue& push(JsonValue item);  // returns this

  // --- objects ---

  const std::vector<Member>& members() const;
  const JsonValue& at(std::string_view key) const;
  JsonValue& at(std::string_view key);

  // Null if it is not there, or this is not an object.
  const JsonValue* find(std::string_view key) const noexcept;
  JsonValue* find(std::string_view key) noexcept;

  // Replaces the member, or adds it at the end. Returns this.
  JsonValue& set(std::string_view key, JsonValue value);

  // Whether it was there.
  bool erase(std::string_view key);

  // Removes the member and returns its value, if it was there.
  std::optional<JsonValue> take(std::string_view key);

  bool operator==(const JsonValue& other) const;

 private:
  struct Boolean {
    bool value;
    friend bool operator==(const Boolean&, const Boolean&) = default;
  };
  struct Number {
    std::string text;
    friend bool operator==(const Number&, const Number&) = default;
  };

  explicit JsonValue(Boolean value);
  explicit JsonValue(Number value);

  std::vector<JsonValue>& own_items();
  std::vector<Member>& own_members();

  // In the order of Kind.
  std::variant<std::monostate, Boolean, Number, std::string, std::vector<JsonValue>,
               std::vector<Member>>
      data_;
};

struct JsonValue::Member {
  std::string key{};
  JsonValue value{};

  friend bool operator==(const Member&, const Member&) = default;
};

// For messages: "a string".
OUTBOX_EXPORT std::string_view describe_kind(JsonValue::Kind kind);

}  // namespace outbox
