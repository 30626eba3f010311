#include "cli/demo/report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <vector>

#include "cli/output/text.h"

namespace outbox::demo {

using cli::percentile;

namespace {

using Kind = Report::Kind;
using namespace std::chrono_literals;
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

constexpr auto kRateWindow = 1s;
constexpr auto kLatencyWindow = 3s;

// Cuts the first word and the space after it off the line.
std::string_view next_word(std::string_view& line) {
  const auto end = line.find(' ');
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

std::optional<std::int64_t> to_number(std::string_view word) {
  std::int64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
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
    const auto since = to_number(next_word(rest));
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
  return [least](const LogRecord& record) {
    if (record.level < least) return;
    tell({.kind = Kind::log, .text = std::string(record.message)});
  };
}

// --- Stats ---

void Stats::add(const Report& report) {
  switch (report.kind) {
    case Kind::committed:
      ++totals_.committed;
      commits_.push_back(report.at);
      while (commits_.front() < report.at - kRateWindow) commits_.pop_front();
      if (const auto early = early_.find(report.id); early != early_.end()) {
        delivered(report.at, early->second);
        early_.erase(early);
      } else {
        under_way_.emplace(report.id, report.at);
      }
      break;
    case Kind::rolled_back:
      ++totals_.rolled_back;
      break;
    case Kind::duplicate:
      ++totals_.duplicates;
      [[fallthrough]];  // the first receipt's report may have died with its process
    case Kind::received:
      if (const auto commit = under_way_.find(report.id); commit != under_way_.end()) {
        delivered(commit->second, report.at);
        under_way_.erase(commit);
      } else if (report.kind == Kind::received) {
        early_.emplace(report.id, report.at);
      }
      break;
    case Kind::ready:
    case Kind::log:
      break;
  }
}

void Stats::delivered(Moment committed, Moment received) {
  ++totals_.delivered;
  // COMMIT may return to the writer after the event is at the receiver.
  const auto latency = std::max(received - committed, Moment::duration::zero());
  latencies_.emplace_back(received, std::chrono::duration_cast<microseconds>(latency));
  while (latencies_.front().first < received - kLatencyWindow) latencies_.pop_front();
}

Figures Stats::figures(Moment now) const {
  Figures result = totals_;
  result.pending = static_cast<std::int64_t>(under_way_.size());
  result.commit_rate = std::count_if(commits_.begin(), commits_.end(),
                                     [&](Moment at) { return at > now - kRateWindow; });
  std::vector<microseconds> recent;
  for (const auto& [received, latency] : latencies_) {
    if (received > now - kRateWindow) ++result.delivery_rate;
    if (received > now - kLatencyWindow) recent.push_back(latency);
  }
  result.p50 = percentile(recent, 50);
  result.p99 = percentile(std::move(recent), 99);
  return result;
}

}  // namespace outbox::demo
