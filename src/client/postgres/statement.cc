#include "client/postgres/statement.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "base/time_text.h"
#include "client/postgres/libpq.h"

namespace outbox::postgres {
namespace {

// The server counts its microseconds from here.
constexpr Time kServerEpoch = std::chrono::sys_days{std::chrono::year{2000} / 1 / 1};

template <class T>
void append_big_endian(std::string& data, T value) {
  using Unsigned = std::make_unsigned_t<T>;
  auto bits = static_cast<Unsigned>(value);
  char bytes[sizeof(T)];
  for (std::size_t i = sizeof(T); i-- > 0;) {
    bytes[i] = static_cast<char>(bits & 0xff);
    bits = static_cast<Unsigned>(bits >> 7 >> 1);  // in two steps, for types of one byte
  }
  data.append(bytes, sizeof bytes);
}

template <class T>
T read_big_endian(const char* data) {
  std::make_unsigned_t<T> bits = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bits =
        static_cast<std::make_unsigned_t<T>>(bits << 7 << 1) | static_cast<unsigned char>(data[i]);
  }
  return static_cast<T>(bits);
}

void begin_array(std::string& data, Oid element, std::size_t size, bool has_nulls) {
  append_big_endian<std::int32_t>(data, 1);  // dimensions
  append_big_endian<std::int32_t>(data, has_nulls ? 1 : 0);
  append_big_endian<std::uint32_t>(data, element);
  append_big_endian<std::int32_t>(data, static_cast<std::int32_t>(size));
  append_big_endian<std::int32_t>(data, 1);  // the first index
}

void append_element(std::string& data, const std::optional<std::string_view>& bytes) {
  if (!bytes) return append_big_endian<std::int32_t>(data, -1);
  append_big_endian<std::int32_t>(data, static_cast<std::int32_t>(bytes->size()));
  data.append(*bytes);
}

// A literal that means the same whatever standard_conforming_strings is.
std::string quoted(std::string_view text) {
  const bool escapes = text.find('\\') != std::string_view::npos;
  std::string literal = escapes ? " E'" : "'";
  literal.reserve(text.size() + 8);
  for (const char c : text) {
    if (c == '\'' || c == '\\') literal.push_back(c);
    literal.push_back(c);
  }
  return literal + "'";
}

void append_integer(std::string& array, std::string_view bytes) {
  array.append(std::to_string(read_big_endian<std::int64_t>(bytes.data())));
}

void append_text(std::string& array, std::string_view bytes) {
  array.push_back('"');
  for (const char c : bytes) {
    if (c == '"' || c == '\\') array.push_back('\\');
    array.push_back(c);
  }
  array.push_back('"');
}

// What begin_array() and append_element() have made, as the server writes arrays.
template <class Append>
std::string array_text(std::string_view data, const Append& append) {
  constexpr std::size_t kHeader = 20;
  constexpr std::size_t kLength = sizeof(std::int32_t);
  std::string array = "{";
  for (data.remove_prefix(kHeader); !data.empty();) {
    const auto length = read_big_endian<std::int32_t>(data.data());
    data.remove_prefix(kLength);
    if (array.size() > 1) array.push_back(',');
    if (length < 0) {
      array.append("NULL");
      continue;
    }
    append(array, data.substr(0, static_cast<std::size_t>(length)));
    data.remove_prefix(static_cast<std::size_t>(length));
  }
  return array + "}";
}

std::int64_t integer_in(std::string_view text) {
  if (text == "t" || text == "f") return text == "t" ? 1 : 0;
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

Oid Parameters::type_of(std::int64_t) { return oid::kInt8; }
Oid Parameters::type_of(bool) { return oid::kBool; }
Oid Parameters::type_of(std::string_view) { return oid::kText; }
Oid Parameters::type_of(Bytes) { return oid::kBytea; }
Oid Parameters::type_of(Time) { return oid::kTimestamptz; }

void Parameters::begin(Oid type) {
  types_.push_back(type);
  slices_.push_back({.at = data_.size()});
}

void Parameters::end() {
  slices_.back().length = static_cast<int>(data_.size() - slices_.back().at);
}

void Parameters::add_null(Oid type) { begin(type); }

void Parameters::add(std::int64_t value) {
  begin(oid::kInt8);
  append_big_endian(data_, value);
  end();
}

void Parameters::add(bool value) {
  begin(oid::kBool);
  data_.push_back(value ? '\1' : '\0');
  end();
}

void Parameters::add(std::string_view text) {
  begin(oid::kText);
  data_.append(text);
  end();
}

void Parameters::add(Bytes bytes) {
  begin(oid::kBytea);
  data_.append(bytes.data);
  end();
}

void Parameters::add(Time time) {
  begin(oid::kTimestamptz);
  append_big_endian<std::int64_t>(data_, (time - kServerEpoch).count());
  end();
}

void Parameters::add(std::span<const std::int64_t> values) {
  begin(oid::kInt8Array);
  begin_array(data_, oid::kInt8, values.size(), false);
  for (const std::int64_t value : values) {
    append_big_endian<std::int32_t>(data_, sizeof value);
    append_big_endian(data_, value);
  }
  end();
}

void Parameters::add(std::span<const std::optional<std::string_view>> texts) {
  begin(oid::kTextArray);
  begin_array(data_, oid::kText, texts.size(), true);
  for (const auto& text : texts) append_element(data_, text);
  end();
}

void Parameters::add(std::span<const std::optional<Bytes>> values) {
  begin(oid::kByteaArray);
  begin_array(data_, oid::kBytea, values.size(), true);
  for (const auto& value : values) {
    append_element(data_, value ? std::optional(value->data) : std::nullopt);
  }
  end();
}

Parameters::Arrays Parameters::arrays() const {
  Arrays arrays;
  arrays.values.reserve(slices_.size());
  arrays.lengths.reserve(slices_.size());
  for (const Slice& slice : slices_) {
    const bool is_null = slice.length < 0;
    arrays.values.push_back(is_null ? nullptr : data_.data() + slice.at);
    arrays.lengths.push_back(is_null ? 0 : slice.length);
  }
  arrays.formats.assign(slices_.size(), 1);
  return arrays;
}

std::string Parameters::literal(int index) const {
  const Slice& slice = slices_.at(static_cast<std::size_t>(index));
  const Oid type = types_.at(static_cast<std::size_t>(index));
  const std::string_view bytes(data_.data() + slice.at,
                               slice.length < 0 ? 0 : static_cast<std::size_t>(slice.length));
  const bool is_null = slice.length < 0;
  switch (type) {
    case oid::kInt8:
      return is_null
                 ? "NULL::bigint"
                 : quoted(std::to_string(read_big_endian<std::int64_t>(bytes.data()))) + "::bigint";
    case oid::kBool:
      return is_null ? "NULL::boolean" : bytes.front() != '\0' ? "true" : "false";
    case oid::kText:
      return is_null ? "NULL::text" : quoted(bytes) + "::text";
    case oid::kInt8Array:
      return is_null ? "NULL::bigint[]" : quoted(array_text(bytes, append_integer)) + "::bigint[]";
    case oid::kTextArray:
      return is_null ? "NULL::text[]" : quoted(array_text(bytes, append_text)) + "::text[]";
    default:
      throw std::logic_error("no literal for a value of type " + std::to_string(type));
  }
}

std::string Parameters::written_into(std::string_view sql) const {
  std::string text;
  for (std::size_t dollar = sql.find('$'); dollar != std::string_view::npos;
       dollar = sql.find('$')) {
    int number = 0;
    const char* digits = sql.data() + dollar + 1;
    const char* end = std::from_chars(digits, sql.data() + sql.size(), number).ptr;
    text.append(sql.substr(0, dollar)).append(literal(number - 1));
    sql.remove_prefix(static_cast<std::size_t>(end - sql.data()));
  }
  return text.append(sql);
}

std::int64_t Result::integer(int row, int column) const {
  if (PQfformat(handle_.get(), column) == 0) return integer_in(text(row, column));
  const char* data = PQgetvalue(handle_.get(), row, column);
  switch (PQgetlength(handle_.get(), row, column)) {
    case 1:
      return *data;
    case 2:
      return read_big_endian<std::int16_t>(data);
    case 4:
      return read_big_endian<std::int32_t>(data);
    case 8:
      return read_big_endian<std::int64_t>(data);
    default:
      return 0;
  }
}

std::string_view Result::text(int row, int column) const {
  return {PQgetvalue(handle_.get(), row, column),
          static_cast<std::size_t>(PQgetlength(handle_.get(), row, column))};
}

Time Result::time(int row, int column) const {
  constexpr std::int64_t kLowest = (kEarliestTime - kServerEpoch).count();
  constexpr std::int64_t kHighest = (kLatestTime - kServerEpoch).count();
  return kServerEpoch +
         std::chrono::microseconds{std::clamp(integer(row, column), kLowest, kHighest)};
}

std::int64_t Result::changed() const {
  const std::string_view text = PQcmdTuples(handle_.get());
  std::int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

}  // namespace outbox::postgres
