#include "trial.h"

#include <chrono>
#include <iostream>
#include <stdexcept>
#include <utility>
#include <variant>

#include "harness/receiver.h"
#include "support/services.h"
#include "system_calls.h"
#include "workload.h"

namespace outbox::crash_points {
namespace {

constexpr std::chrono::seconds kLimit{120};

// More calls than any of these processes makes: it would never be over.
constexpr long kMostCalls = 5'000;

}  // namespace

std::unique_ptr<chaos::Database> open(const Arguments& arguments) {
  if (arguments.store == "sqlite") {
    return chaos::sqlite_database(arguments.folder + "/shop.db", sqlite::Durability::full);
  }
#ifdef OUTBOX_WITH_POSTGRES
  if (arguments.store == "postgres") return chaos::postgres_database(arguments.url);
#endif
#ifdef OUTBOX_WITH_MYSQL
  if (arguments.store == "mysql") return chaos::mysql_database(arguments.url);
#endif
  throw std::invalid_argument("--store: this program was built without '" + arguments.store + "'");
}

Place::Place(const std::string& store) {
#ifdef OUTBOX_WITH_POSTGRES
  if (store == "postgres") {
    schema_.emplace();
    url_ = test::postgres_url() + "?options=-csearch_path%3D" + schema_->name();
  }
#endif
#ifdef OUTBOX_WITH_MYSQL
  if (store == "mysql") {
    database_.emplace();
    url_ = database_->url();
  }
#endif
  static_cast<void>(store);
}

Trial::Trial(Arguments arguments)
    : arguments_(std::move(arguments)),
      place_(arguments_.store),
      database_(make_database()),
      observer_(*database_) {}

int Trial::run() {
  for (long n = 1; n <= kMostCalls; n += arguments_.every) {
    if (arguments_.part == "deliver") {
      NotCounted not_counted;
      write_some({.database = *database_, .folder = arguments_.folder});
    }
    const auto ended = start(arguments_.part, n);
    if (!ended) return fail(n, "did not end");
    if (!ended->success() && ended != harness::kKilled) {
      return fail(n, "ended with " + to_string(ended));
    }
    const std::size_t arrivals = read_arrivals().size();
    const std::set<std::string> done = ids_of("SELECT event_id FROM outbox_event WHERE status = 1");
    allow_repeats_of_what_was_in_flight(done);
    const auto finished = start("finish", 0);
    if (finished != harness::ExitStatus{}) {
      return fail(n, "was followed by one that ended with " + to_string(finished));
    }
    if (const std::string problem = judge(arrivals, done); !problem.empty()) {
      return fail(n, problem);
    }
    if (ended->success()) return succeed(n);
    ++deaths_;
  }
  return fail(kMostCalls, "is not over");
}

std::unique_ptr<chaos::Database> Trial::make_database() {
  arguments_.folder = directory_.path();
  arguments_.url = place_.url();
  return open(arguments_);
}

// How it ended.
std::optional<harness::ExitStatus> Trial::start(const std::string& role, long die_at) {
  std::vector<std::string> words{"--role",    role,
                                 "--store",   arguments_.store,
                                 "--folder",  arguments_.folder,
                                 "--cut",     arguments_.cut,
                                 "--die-at",  std::to_string(die_at),
                                 "--process", std::to_string(++processes_)};
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--url", arguments_.url);
  if (role != "finish") add("--fault", arguments_.fault);
  harness::Process process(words, harness::append_to(log()));
  return process.wait(kLimit);
}

std::string Trial::log() const { return arguments_.folder + "/log"; }
std::vector<harness::Message> Trial::read_arrivals() const {
  return harness::read_messages(ledger_path(arguments_.folder));
}

std::set<std::string> Trial::ids_of(const std::string& sql) {
  const auto store = chaos::open_patiently(*database_);
  const auto own = chaos::connect_patiently(*database_, *store);
  std::set<std::string> ids;
  for (const ResultRow& row : own->connection().query(sql, {})) {
    ids.insert(row.get<std::string>(0));
  }
  return ids;
}

void Trial::allow_repeats_of_what_was_in_flight(const std::set<std::string>& done) {
  for (const harness::Message& arrival : read_arrivals()) {
    if (!done.contains(arrival.id)) ++repeats_allowed_;
  }
}

// What is wrong; empty if nothing is. Events that were DONE when the process died, and had
// been delivered, must not come again.
std::string Trial::judge(std::size_t arrivals_before, const std::set<std::string>& done) {
  const auto arrivals = read_arrivals();
  for (std::size_t i = arrivals_before; i < arrivals.size(); ++i) {
    if (done.contains(arrivals[i].id))
      return "had acknowledged " + arrivals[i].id + ", which came again";
  }
  const auto committed = observer_.committed();
  std::set<std::string> business;
  for (const harness::Committed& row : committed) business.insert(row.id);
  if (business != ids_of("SELECT event_id FROM outbox_event")) {
    return "left business rows without events, or events without business rows";
  }
  harness::Verdict verdict =
      harness::judge(committed, arrivals, {.duplicate_bound = repeats_allowed_},
                     chaos::parse_attempts(harness::read_lines(attempts_path(arguments_.folder))));
  verdict.dead = observer_.dead();
  verdict.pending = observer_.pending();
  events_ = verdict.committed;
  repeats_ = verdict.duplicates;
  if (verdict.clean()) return {};
  std::cout << verdict;
  return "left what must not be";
}

int Trial::fail(long n, const std::string& what) {
  if (arguments_.fault.empty()) directory_.keep();  // else it is what was asked for
  std::cout << name() << ": the process that was to die at call " << n << " " << what << "; see "
            << log() << std::endl;
  return 1;
}

int Trial::succeed(long n) {
  const std::vector<std::string> lines = harness::read_lines(log());
  std::string calls;
  for (const std::string& line : lines) {
    if (line.starts_with("calls: ") && line.size() > 7) calls = line;
  }
  // Else the libraries would not call what is counted.
  const bool on_server = arguments_.store != "sqlite";
  const bool counted = on_server ? calls.find("send ") != std::string::npos
                                 : calls.find("pwrite ") != std::string::npos &&
                                       calls.find("fdatasync ") != std::string::npos;
  if (!counted) return fail(n, "did not make the calls that it should: " + calls);
  std::cout << name() << ": " << deaths_ << " deaths, came to its end at call " << n << "; "
            << calls << "; " << events_ << " events, " << repeats_ << " repeats" << std::endl;
  return 0;
}

std::string Trial::name() const {
  return arguments_.store + ", " + arguments_.part + ", " + arguments_.cut;
}

}  // namespace outbox::crash_points
