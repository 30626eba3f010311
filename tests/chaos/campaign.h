// Many runs, one after the other, until enough was tried.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run_record.h"
#include "settings.h"

namespace outbox::chaos {

// So much of what the columns say, in all runs together.
struct Goal {
  std::string_view name;
  std::vector<std::string_view> columns;
  std::int64_t target = 0;
};
const std::vector<Goal>& goals();
std::int64_t reached(const Goal& goal, std::span<const PastRun> runs);

// A kind of run, and by their names the goals that it serves.
struct Kind {
  std::string arguments;
  std::vector<std::string_view> serves;
};
const std::vector<Kind>& kinds();

// The kind that was played least often of those that serve the goal that is furthest behind;
// nullptr if all are reached. Only what is in the records counts, so that one that was
// interrupted goes on.
const Kind* next_kind(std::span<const PastRun> runs);

// How far each goal is, in a line.
std::string progress(std::span<const PastRun> runs);

// A row for each store and its servers, and one for all.
void print_totals(std::ostream& out, std::span<const PastRun> runs);

// Plays runs until the goals are reached, the minutes are over or a run was violated. The
// exit code: 1 if one was violated, now or before.
int run_campaign(const Settings& settings, std::ostream& out);

}  // namespace outbox::chaos
