#include "cli/stores/server_checks.h"

#include <algorithm>
#include <exception>

#include "cli/arguments/times.h"
#include "cli/output/figures.h"

namespace outbox::cli {
namespace {

using std::chrono::microseconds;
using Verdict = Finding::Verdict;

// Clocks of hosts differ by less than that.
constexpr microseconds kClockTolerance = std::chrono::minutes{1};

}  // namespace

Finding check_clock(microseconds there) {
  const microseconds here =
      std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch());
  const microseconds apart = std::chrono::abs(there - here);
  if (apart <= kClockTolerance) return {.check = "time", .says = "the server's clock is like ours"};
  return {.check = "time",
          .verdict = Verdict::warning,
          .says = "the server's clock is " + age_text(apart) +
                  (there < here ? " behind ours" : " ahead of ours"),
          .advice =
              "set the clocks: leases, and times of day such as deliver_at, are judged by the "
              "server's"};
}

Finding check_sessions(std::int64_t left, std::int64_t most, std::int64_t needed,
                       const std::string& remedy) {
  Finding finding{.check = "sessions",
                  .says = grouped(left) + " of " + grouped(most) + " are free"};
  if (left < needed) {
    finding.verdict = Verdict::warning;
    finding.advice = "an engine opens up to " + grouped(needed) + ": " + remedy;
  }
  return finding;
}

Finding check_duties(const std::string& who, const std::vector<Duty>& duties) {
  std::string may;
  std::string lacks;
  for (const Duty& duty : duties) {
    if (duty.lacks.empty()) {
      may += (may.empty() ? "" : ", ") + duty.name;
    } else {
      lacks += "; to " + duty.name + " it lacks " + duty.lacks;
    }
  }
  Finding finding{.check = "privileges",
                  .says = who + " may " + (may.empty() ? "nothing" : may) + lacks};
  if (may.empty()) {
    finding.verdict = Verdict::failure;
    finding.advice = "grant " + who + " what its duty needs (docs/databases.md), or use the one " +
                     "that owns the tables";
  }
  return finding;
}

Finding try_check(const char* check, const std::function<Finding()>& run) {
  try {
    return run();
  } catch (const std::exception& error) {
    return {.check = check,
            .verdict = Verdict::warning,
            .says = std::string("cannot be told: ") + error.what()};
  }
}

bool any_failed(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.verdict == Verdict::failure; });
}

}  // namespace outbox::cli
