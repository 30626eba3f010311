#include "cli/doctor/server_doctor.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "cli/output/text.h"

namespace outbox::cli {
namespace {

using std::chrono::microseconds;
using Verdict = Finding::Verdict;

// Clocks of hosts differ by less than that.
constexpr microseconds kClockTolerance = std::chrono::minutes{1};

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

class ServerBackend final : public Backend {
 public:
  ServerBackend(const ServerKind& kind, std::string url, std::string table)
      : kind_(kind), url_(std::move(url)), table_(std::move(table)), address_(kind.address(url_)) {}

  std::string description() const override {
    return std::string(kind_.name) + " database " + address_.place + ", table " + table_;
  }
  std::string arguments() const override { return store_arguments(address_.public_url, table_); }
  SchemaStatus schema_status() override { return kind_.schema_status(url_, table_); }
  SchemaStatus migrate() override { return kind_.migrate(url_, table_); }
  std::string schema_sql() const override { return kind_.schema_sql(url_, table_); }

  std::shared_ptr<Store> open() override {
    check_schema(*this, schema_status());
    return kind_.open(url_, table_);
  }

  std::vector<Finding> examine(const ExamineOptions& /*options*/) override {
    return kind_.examine(url_, table_);
  }

  RepairSql repair_sql() const override { return kind_.repair_sql(table_); }

 private:
  const ServerKind& kind_;
  const std::string url_;  // with its password
  const std::string table_;
  const ServerKind::Address address_;
};

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

Finding check_snapshots(const std::vector<OpenTransaction>& old, std::chrono::seconds limit,
                        const char* advice) {
  if (old.empty()) {
    return {.check = "snapshots", .says = "no transaction has been open for " + age_text(limit)};
  }
  const OpenTransaction& oldest = old.front();
  std::string says = oldest.owner;
  says += oldest.prepared ? " has been there for " : " has had a transaction open for ";
  says += age_text(oldest.age);
  if (old.size() > 1) {
    says += ", and " + grouped(static_cast<std::int64_t>(old.size()) - 1) + " more";
  }
  return {.check = "snapshots", .verdict = Verdict::warning, .says = says, .advice = advice};
}

std::vector<Finding> ServerDoctor::examine() {
  std::vector<Finding> findings;
  const auto add = [&](const std::vector<Check>& more) {
    for (const Check& check : more) findings.push_back(try_check(check.name, check.run));
  };
  try {
    check_server(findings);
    if (any_failed(findings)) return findings;
    add(checks());
    // Without tables the check of the schema says what to do.
    if (has_tables()) add(table_checks());
  } catch (const std::exception& error) {
    findings.push_back(
        {.check = "server", .verdict = Verdict::failure, .says = error.what(), .advice = remedy()});
  }
  return findings;
}

std::unique_ptr<Backend> make_server_backend(const ServerKind& kind, std::string url,
                                             std::string table) {
  return std::make_unique<ServerBackend>(kind, std::move(url), std::move(table));
}

}  // namespace outbox::cli
