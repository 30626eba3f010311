#include "cli/demo/report.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "cli/demo/words.h"

namespace outbox::demo {
namespace {

using Kind = Report::Kind;
using std::chrono::microseconds;

constexpr std::array<std::pair<Kind, std::string_view>, 6> kNames{
    {{Kind::ready, "@ready"},
     {Kind::committed, "@committed"},
     {Kind::rolled_back, "@rolled_back"},
     {Kind::received, "@received"},
     {Kind::duplicate, "@duplicate"},
     {Kind::log, "@log"}}};

bool has_moment(Kind kind) {
  return kind == Kind::committed || kind == Kind::received || kind == Kind::duplicate;
}

}  // namespace

std::string Report::line() const {
  std::string result;
  for (const auto& [candidate, name] : kNames) {
    if (candidate == kind) result = name;
  }
  if (kind == Kind::log) return result + ' ' + text;
  if (kind != Kind::ready) result += ' ' + id;
  if (has_moment(kind)) {
    const auto since = std::chrono::duration_cast<microseconds>(at.time_since_epoch());
    result += ' ' + std::to_string(since.count());
  }
  return result;
}

Report Report::parse(std::string_view line) {
  std::string_view rest = line;
  const std::string_view word = next_word(rest);
  for (const auto& [kind, name] : kNames) {
    if (word != name) continue;
    if (kind == Kind::log) return {.kind = kind, .text = std::string(rest)};
    Report report{.kind = kind, .id = std::string(next_word(rest))};
    if (!has_moment(kind)) return report;
    const auto since = to_number<std::int64_t>(next_word(rest));
    if (!since) break;
    report.at = Moment{microseconds{*since}};
    return report;
  }
  return {.kind = Kind::log, .text = std::string(line)};
}

void tell(const Report& report) {
  const std::string line = report.line() + '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = write(STDOUT_FILENO, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) return;  // nobody listens any more
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

Logger telling_log(LogLevel least) {
  return [least](LogLevel level, std::string_view message) {
    if (level < least) return;
    tell({.kind = Kind::log, .text = std::string(message)});
  };
}

}  // namespace outbox::demo
