#include "support/commit_scanner.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>

namespace outbox::test {
namespace {

constexpr std::string_view kSpace = " \t\r\n;";

// PostgreSQL's first messages have no type: requests for encryption, which are answered by
// one byte, and the one that begins the session.
constexpr std::uint32_t kSslRequest = 80'877'103;
constexpr std::uint32_t kGssRequest = 80'877'104;

constexpr char kComQuery = 3;

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

std::size_t length_of_mysql(std::string_view header) {
  std::size_t value = 0;
  for (std::size_t i = 3; i > 0; --i) value = value << 8 | static_cast<std::uint8_t>(header[i - 1]);
  return value;
}

// Takes a text that ends with a zero off the front.
std::string_view take_text(std::string_view& bytes) {
  const std::string_view text = bytes.substr(0, bytes.find('\0'));
  bytes.remove_prefix(std::min(bytes.size(), text.size() + 1));
  return text;
}

}  // namespace

bool ends_with_commit(std::string_view sql) {
  sql = sql.substr(0, sql.find_last_not_of(kSpace) + 1);
  if (const std::size_t end = sql.rfind(';'); end != std::string_view::npos) {
    sql.remove_prefix(end + 1);
  }
  sql.remove_prefix(std::min(sql.size(), sql.find_first_not_of(kSpace)));
  constexpr std::string_view kCommit = "COMMIT";
  if (sql.size() < kCommit.size()) return false;
  for (std::size_t i = 0; i < kCommit.size(); ++i) {
    if (std::toupper(static_cast<unsigned char>(sql[i])) != kCommit[i]) return false;
  }
  return sql.size() == kCommit.size() || sql[kCommit.size()] == ' ';
}

bool CommitScanner::take(std::string_view piece) {
  if (wire_ == Wire::unknown) return false;
  buffer_.append(piece);
  bool commit = false;
  while (wire_ == Wire::postgres ? take_postgres(commit) : take_mysql(commit)) {
  }
  return commit;
}

bool CommitScanner::take_postgres(bool& commit) {
  const std::size_t type = started_ ? 1 : 0;
  if (buffer_.size() < type + 4) return false;
  const std::size_t length = big_endian(std::string_view(buffer_).substr(type));
  if (buffer_.size() < type + length) return false;
  const std::string_view body = std::string_view(buffer_).substr(type + 4, length - 4);
  if (started_) {
    commit = is_commit(buffer_.front(), body) || commit;
  } else {
    const std::uint32_t code = big_endian(body);
    started_ = code != kSslRequest && code != kGssRequest;
  }
  buffer_.erase(0, type + length);
  return true;
}

bool CommitScanner::is_commit(char type, std::string_view body) {
  switch (type) {
    case 'Q':
      return ends_with_commit(take_text(body));
    case 'P': {
      const std::string name(take_text(body));
      statements_[name] = ends_with_commit(take_text(body));
      return false;
    }
    case 'B': {
      const std::string portal(take_text(body));
      const auto statement = statements_.find(take_text(body));
      portals_[portal] = statement != statements_.end() && statement->second;
      return false;
    }
    case 'E': {
      const auto portal = portals_.find(take_text(body));
      return portal != portals_.end() && portal->second;
    }
    default:
      return false;
  }
}

bool CommitScanner::take_mysql(bool& commit) {
  constexpr std::size_t kHeader = 4;
  if (buffer_.size() < kHeader) return false;
  const std::size_t length = length_of_mysql(buffer_);
  if (buffer_.size() < kHeader + length) return false;
  const std::string_view body = std::string_view(buffer_).substr(kHeader, length);
  const bool first = buffer_[3] == 0;  // of its exchange; the login is not
  if (first && !body.empty() && body.front() == kComQuery) {
    commit = ends_with_commit(body.substr(1)) || commit;
  }
  buffer_.erase(0, kHeader + length);
  return true;
}

bool CommitAnswer::take(std::string_view piece) {
  if (wire_ != Wire::postgres) return !piece.empty();
  // It may still be answering what was sent before; then it tells that it has committed, or
  // rolled back, and in any case that it is ready for the next query.
  using namespace std::string_view_literals;
  last_.append(piece);
  for (const std::string_view end : {"COMMIT\0"sv, "ROLLBACK\0"sv, "Z\0\0\0\5"sv}) {
    if (last_.find(end) != std::string::npos) return true;
  }
  constexpr std::size_t kLongest = 9;
  if (last_.size() > kLongest) last_.erase(0, last_.size() - kLongest);
  return false;
}

}  // namespace outbox::test
