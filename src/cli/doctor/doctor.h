// What `outbox doctor` looks at, and what it finds: one list of checks for the database, its
// tables and the store in them. Databases differ in the checks, and in nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace outbox::cli {

class Backend;

struct Finding {
  enum class Verdict : std::uint8_t { ok, warning, failure };

  Verdict verdict = Verdict::ok;
  std::string says{};
  std::string advice{};  // what to do about it; empty if nothing
  bool stops = false;    // the checks after it would only find the same
  std::string check{};   // the name of the check; examine() fills it in
};

Finding fine(std::string says);
Finding warning(std::string says, std::string advice = {});
Finding failure(std::string says, std::string advice = {});
Finding fatal(std::string says, std::string advice = {});  // a failure that stops

struct Check {
  std::string name;                            // what is looked at, in one or two words
  std::function<std::vector<Finding>()> find;  // nothing: it does not apply

  // Whether those after it can find nothing without it: if it throws, that is a fatal
  // finding with this advice. If any other throws, it is a warning.
  bool required = false;
  std::string advice{};
};

// Makes the checks in their order, each of which may rest on those before it.
std::vector<Finding> examine(const std::vector<Check>& checks);

// --- Checks that databases share ---

// Whether the tables are there and up to date. Comes last: checks of the privileges may know
// why they cannot be seen, and there is no store without them.
Check schema_check(Backend& backend);

// Whether the server's clock, given as the time since 1970, agrees with ours.
Finding check_clock(std::chrono::microseconds there);

// Whether an engine, which opens `needed` connections at most, still finds so many free.
// `remedy` says what to raise.
Finding check_sessions(std::int64_t left, std::int64_t most, std::int64_t needed,
                       const std::string& remedy);

// Something that a login may be for: to write, to deliver.
struct Duty {
  std::string name{};
  std::string lacks{};  // the privileges that are missing for it; empty if none
};

// A login of its own for each duty is good practice: one that can do some of them is in
// order. `who` is "the role" or "the user".
Finding check_duties(const std::string& who, const std::vector<Duty>& duties);

// A transaction of somebody else's.
struct OpenTransaction {
  std::string owner{};    // "session 7", "prepared transaction 'x'"
  bool prepared = false;  // it has no session
  std::chrono::seconds age{0};
};

// `old`: those that have been open for longer than `limit`, the oldest first. `advice` says
// what they cost and how to end them.
Finding check_snapshots(const std::vector<OpenTransaction>& old, std::chrono::seconds limit,
                        const char* advice);

}  // namespace outbox::cli
