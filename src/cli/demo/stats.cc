#include "cli/demo/stats.h"

#include <algorithm>
#include <vector>

#include "cli/output/text.h"

namespace outbox::demo {

using cli::percentile;

namespace {

using Kind = Report::Kind;
using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr auto kRateWindow = 1s;
constexpr auto kLatencyWindow = 3s;

}  // namespace

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
