// Kills a process at each of its calls, and judges what it leaves behind.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/process.h"
#include "harness/verdict.h"
#include "observer.h"
#include "scenario.h"
#include "support/temporary_directory.h"
#ifdef OUTBOX_WITH_POSTGRES
#include "support/postgres.h"
#endif
#ifdef OUTBOX_WITH_MYSQL
#include "support/mysql.h"
#endif

namespace outbox::crash_points {

struct Arguments {
  std::string store = "sqlite";
  std::string part = "write";
  std::string cut = "before";
  long every = 1;
  std::string fault{};

  // Of the processes.
  std::string role{};
  std::string folder{};
  std::string url{};
  long die_at = 0;
  int process = 0;
};

// The database that the arguments name.
std::unique_ptr<chaos::Database> open(const Arguments& arguments);

// A place for the tables on a server, which is gone at the end.
class Place {
 public:
  explicit Place(const std::string& store);

  const std::string& url() const { return url_; }

 private:
  std::string url_;
#ifdef OUTBOX_WITH_POSTGRES
  std::optional<test::Schema> schema_;
#endif
#ifdef OUTBOX_WITH_MYSQL
  std::optional<test::Database> database_;
#endif
};

// Used by one thread.
class Trial {
 public:
  explicit Trial(Arguments arguments);

  // Until the process has come to its end, or something was violated; the exit code.
  int run();

 private:
  std::unique_ptr<chaos::Database> make_database();
  std::optional<harness::ExitStatus> start(const std::string& role, long die_at);
  std::string log() const;
  std::vector<harness::Message> read_arrivals() const;
  std::set<std::string> ids_of(const std::string& sql);
  void allow_repeats_of_what_was_in_flight(const std::set<std::string>& done);
  std::string judge(std::size_t arrivals_before, const std::set<std::string>& done);
  int fail(long n, const std::string& what);
  int succeed(long n);
  std::string name() const;

  Arguments arguments_;
  test::TemporaryDirectory directory_;
  const Place place_;
  const std::unique_ptr<chaos::Database> database_;
  chaos::Observer observer_;
  int processes_ = 0;
  int deaths_ = 0;
  std::size_t repeats_allowed_ = 0;
  std::size_t events_ = 0;
  std::size_t repeats_ = 0;
};

}  // namespace outbox::crash_points
