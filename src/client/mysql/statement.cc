#include "client/mysql/statement.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <string>

#include "base/sql_text.h"
#include "base/time_text.h"
#include "outbox/error.h"

namespace outbox::mysql {
namespace {

enum class Shape { integer, real, text };

constexpr unsigned kBinaryCharacterSet = 63;

Shape shape_of(enum_field_types type) {
  switch (type) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
    case MYSQL_TYPE_YEAR:
      return Shape::integer;
    case MYSQL_TYPE_FLOAT:
    case MYSQL_TYPE_DOUBLE:
      return Shape::real;
    default:
      return Shape::text;
  }
}

bool holds_bytes(const MYSQL_FIELD& field) {
  switch (field.type) {
    case MYSQL_TYPE_STRING:
    case MYSQL_TYPE_VAR_STRING:
    case MYSQL_TYPE_VARCHAR:
    case MYSQL_TYPE_TINY_BLOB:
    case MYSQL_TYPE_BLOB:
    case MYSQL_TYPE_MEDIUM_BLOB:
    case MYSQL_TYPE_LONG_BLOB:
      return field.charsetnr == kBinaryCharacterSet;
    case MYSQL_TYPE_BIT:
    case MYSQL_TYPE_GEOMETRY:
      return true;
    default:
      return false;
  }
}

template <class T>
T number(std::string_view text) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::span<const MYSQL_FIELD> fields_of(MYSQL_RES* metadata) {
  if (metadata == nullptr) return {};
  return {mysql_fetch_fields(metadata), mysql_num_fields(metadata)};
}

bool is_unsigned(const MYSQL_FIELD& field) { return (field.flags & UNSIGNED_FLAG) != 0; }

// What came of a statement without rows; ~0 where there is nothing to count.
std::int64_t count_of(my_ulonglong affected) {
  return affected == ~my_ulonglong{0} ? 0 : static_cast<std::int64_t>(affected);
}

MYSQL_TIME as_mysql_time(Time time) {
  using namespace std::chrono;
  const Time kept = std::clamp(time, kEarliestTime, kLatestTime);
  const sys_days midnight = floor<days>(kept);
  const year_month_day date{midnight};
  const hh_mm_ss clock{kept - midnight};
  MYSQL_TIME result{};
  result.time_type = MYSQL_TIMESTAMP_DATETIME;
  result.year = static_cast<unsigned>(static_cast<int>(date.year()));
  result.month = static_cast<unsigned>(date.month());
  result.day = static_cast<unsigned>(date.day());
  result.hour = static_cast<unsigned>(clock.hours().count());
  result.minute = static_cast<unsigned>(clock.minutes().count());
  result.second = static_cast<unsigned>(clock.seconds().count());
  result.second_part = static_cast<unsigned long>(clock.subseconds().count());
  return result;
}

// Of "2026-03-01 12:00:00.000000", whose end may be missing.
Time parse_datetime(std::string_view text) {
  using namespace std::chrono;
  const auto part = [&](std::size_t at, std::size_t size) {
    return at < text.size() ? number<int>(text.substr(at, size)) : 0;
  };
  const year_month_day date{year{part(0, 4)}, month{static_cast<unsigned>(part(5, 2))},
                            day{static_cast<unsigned>(part(8, 2))}};
  if (!date.ok()) return kEarliestTime;
  std::string fraction(text.size() > 20 ? text.substr(20, 6) : "");
  fraction.resize(6, '0');
  return sys_days{date} + hours{part(11, 2)} + minutes{part(14, 2)} + seconds{part(17, 2)} +
         microseconds{number<int>(fraction)};
}

// One column of the rows that mysql_stmt_fetch() puts somewhere.
struct Place {
  Shape shape = Shape::text;
  std::int64_t integer = 0;
  double real = 0;
  std::string text{};
  unsigned long length = 0;
  my_bool is_null = 0;

  void prepare(const MYSQL_FIELD& field, MYSQL_BIND& bind) {
    // What is no text in the table, like a time, is made one here, and is not long.
    constexpr std::size_t kLongestOther = 64;
    shape = shape_of(field.type);
    bind.is_null = &is_null;
    bind.length = &length;
    switch (shape) {
      case Shape::integer:
        bind.buffer_type = MYSQL_TYPE_LONGLONG;
        bind.buffer = &integer;
        bind.is_unsigned = is_unsigned(field) ? 1 : 0;
        return;
      case Shape::real:
        bind.buffer_type = MYSQL_TYPE_DOUBLE;
        bind.buffer = &real;
        return;
      case Shape::text:
        text.resize(std::max<std::size_t>(field.max_length, kLongestOther));
        bind.buffer_type = holds_bytes(field) ? MYSQL_TYPE_BLOB : MYSQL_TYPE_STRING;
        bind.buffer = text.data();
        bind.buffer_length = text.size();
        return;
    }
  }
};

}  // namespace

Parameters Parameters::of(std::span<const Parameter> values) {
  Parameters parameters;
  parameters.values_.reserve(values.size());
  for (const Parameter& value : values) {
    std::visit(
        [&](const auto& held) {
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(held)>, Parameter::Bytes>) {
            parameters.values_.emplace_back(Bytes{as_text(held)});
          } else {
            parameters.values_.emplace_back(held);
          }
        },
        value.held());
  }
  return parameters;
}

std::size_t Parameters::bytes() const {
  constexpr std::size_t kMostBesides = 16;  // type, length, or all of a number or time
  std::size_t sum = 0;
  for (const Held& value : values_) {
    sum += kMostBesides;
    if (const auto* text = std::get_if<std::string>(&value)) sum += text->size();
    if (const auto* text = std::get_if<std::string_view>(&value)) sum += text->size();
    if (const auto* blob = std::get_if<Blob>(&value)) sum += blob->data.size();
    if (const auto* bytes = std::get_if<Bytes>(&value)) sum += bytes->data.size();
  }
  return sum;
}

std::string Parameters::into(std::string_view text) const {
  std::string sql;
  sql.reserve(text.size() + bytes());
  for (const Held& value : values_) {
    const auto update = text.find('?');
    sql += text.substr(0, update);
    text.remove_prefix(update + 1);
    std::visit([&](const auto& held) { append_literal(sql, held); }, value);
  }
  return sql.append(text);
}

Parameters::Binds::Binds(std::span<const Held> values) : binds_(values.size()) {
  times_.reserve(values.size());  // binds_ points into it
  for (std::size_t i = 0; i < values.size(); ++i) {
    MYSQL_BIND& bind = binds_[i];
    const auto set = [&](enum_field_types type, const void* data, std::size_t length) {
      bind.buffer_type = type;
      bind.buffer = const_cast<void*>(data);  // libmariadb only reads what is sent
      bind.buffer_length = length;
    };
    if (const auto* integer = std::get_if<std::int64_t>(&values[i])) {
      set(MYSQL_TYPE_LONGLONG, integer, sizeof *integer);
    } else if (const auto* real = std::get_if<double>(&values[i])) {
      set(MYSQL_TYPE_DOUBLE, real, sizeof *real);
    } else if (const auto* text = std::get_if<std::string>(&values[i])) {
      set(MYSQL_TYPE_STRING, text->data(), text->size());
    } else if (const auto* blob = std::get_if<Blob>(&values[i])) {
      set(MYSQL_TYPE_BLOB, blob->data.data(), blob->data.size());
    } else if (const auto* view = std::get_if<std::string_view>(&values[i])) {
      set(MYSQL_TYPE_STRING, view->empty() ? "" : view->data(), view->size());
    } else if (const auto* bytes = std::get_if<Bytes>(&values[i])) {
      set(MYSQL_TYPE_BLOB, bytes->data.data(), bytes->data.size());
    } else if (const auto* time = std::get_if<Time>(&values[i])) {
      times_.push_back(as_mysql_time(*time));
      set(MYSQL_TYPE_DATETIME, &times_.back(), sizeof(MYSQL_TIME));
    } else {
      set(MYSQL_TYPE_NULL, nullptr, 0);
    }
  }
}

void Result::describe_columns(MYSQL_RES* metadata, Names names) {
  for (const MYSQL_FIELD& field : fields_of(metadata)) {
    is_bytes_.push_back(holds_bytes(field));
    if (names == Names::keep) names_.emplace_back(field.name, field.name_length);
  }
}

void Result::add_text(std::string_view text) {
  cells_.emplace_back(Slice{data_.size(), text.size()});
  data_.append(text);
}

void Result::add_integer(std::int64_t value, bool is_unsigned) {
  if (is_unsigned && value < 0) return add_text(std::to_string(static_cast<std::uint64_t>(value)));
  cells_.emplace_back(value);
}

Result::Result(MYSQL* connection, MYSQL_RES* rows, Names names) {
  describe_columns(rows, names);
  if (rows == nullptr) {
    changed_ = count_of(mysql_affected_rows(connection));
    insert_id_ = static_cast<std::int64_t>(mysql_insert_id(connection));
    return;
  }
  const auto fields = fields_of(rows);
  cells_.reserve(mysql_num_rows(rows) * fields.size());
  while (const char* const* row = mysql_fetch_row(rows)) {
    const unsigned long* lengths = mysql_fetch_lengths(rows);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (row[i] == nullptr) {
        cells_.emplace_back(nullptr);
        continue;
      }
      const std::string_view text(row[i], lengths[i]);
      switch (shape_of(fields[i].type)) {
        case Shape::integer:
          add_integer(is_unsigned(fields[i])
                          ? static_cast<std::int64_t>(number<std::uint64_t>(text))
                          : number<std::int64_t>(text),
                      is_unsigned(fields[i]));
          break;
        case Shape::real:
          cells_.emplace_back(number<double>(text));
          break;
        case Shape::text:
          add_text(text);
          break;
      }
    }
  }
}

Result::Result(MYSQL_STMT* statement, Names names) {
  const ResultHandle metadata(mysql_stmt_result_metadata(statement));
  describe_columns(metadata.get(), names);
  if (!metadata) {
    changed_ = count_of(mysql_stmt_affected_rows(statement));
    insert_id_ = static_cast<std::int64_t>(mysql_stmt_insert_id(statement));
    return;
  }
  const auto fields = fields_of(metadata.get());
  std::vector<Place> places(fields.size());
  std::vector<MYSQL_BIND> binds(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) places[i].prepare(fields[i], binds[i]);
  mysql_stmt_bind_result(statement, binds.data());
  cells_.reserve(mysql_stmt_num_rows(statement) * fields.size());
  while (mysql_stmt_fetch(statement) == 0) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const Place& place = places[i];
      if (place.is_null != 0) {
        cells_.emplace_back(nullptr);
      } else if (place.shape == Shape::integer) {
        add_integer(place.integer, is_unsigned(fields[i]));
      } else if (place.shape == Shape::real) {
        cells_.emplace_back(place.real);
      } else {
        add_text(std::string_view(place.text).substr(0, place.length));
      }
    }
  }
}

const Result::Cell& Result::cell(int row, int column) const {
  const bool there =
      row >= 0 && row < rows() && column >= 0 && static_cast<std::size_t>(column) < columns();
  if (!there) {
    throw PermanentError("the server's answer has " + std::to_string(rows()) + " rows of " +
                         std::to_string(columns()) + " columns, and column " +
                         std::to_string(column + 1) + " of row " + std::to_string(row + 1) +
                         " was expected; is it MariaDB or MySQL?");
  }
  return cells_[static_cast<std::size_t>(row) * columns() + static_cast<std::size_t>(column)];
}

std::int64_t Result::integer(int row, int column) const {
  const Cell& held = cell(row, column);
  if (const auto* integer = std::get_if<std::int64_t>(&held)) return *integer;
  if (const auto* real = std::get_if<double>(&held)) return static_cast<std::int64_t>(*real);
  return number<std::int64_t>(text(row, column));
}

std::string_view Result::text(int row, int column) const {
  const auto* slice = std::get_if<Slice>(&cell(row, column));
  return slice == nullptr ? std::string_view{}
                          : std::string_view(data_).substr(slice->at, slice->length);
}

Time Result::time(int row, int column) const {
  return is_null(row, column) ? Time{} : parse_datetime(text(row, column));
}

Value Result::value(int row, int column) const {
  const Cell& held = cell(row, column);
  if (const auto* integer = std::get_if<std::int64_t>(&held)) return *integer;
  if (const auto* real = std::get_if<double>(&held)) return *real;
  if (is_null(row, column)) return nullptr;
  const std::string bytes(text(row, column));
  if (is_bytes_[static_cast<std::size_t>(column)]) return Blob{bytes};
  return bytes;
}

}  // namespace outbox::mysql
