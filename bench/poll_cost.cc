#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bare.h"
#include "benchmarks.h"
#include "core/lane_key.h"
#include "outbox/sqlite.h"
#include "store/sqlite/sql.h"

namespace outbox::bench {
namespace {

constexpr std::size_t kPolled = 100;
constexpr int kPollsARound = 50;

// A table in some state, with an owner that polls it.
class Polled {
 public:
  Polled(Scratch& scratch, const std::vector<Filling>& fillings) : path_(scratch.fresh()) {
    for (const Filling& filling : fillings) fill(path_, filling);
    store_ = sqlite::open(path_);
    instance_ = store_->join({});
    if (instance_->renew().epoch == 0) throw std::runtime_error("poll_cost: not the owner");
  }
  ~Polled() {
    instance_->leave();
    instance_.reset();
    store_.reset();
    Scratch::remove(path_);
  }
  Polled(const Polled&) = delete;
  Polled& operator=(const Polled&) = delete;

  // Microseconds of a poll from the lowest row on: of what is ready, and of
  // what is due.
  double time() {
    Samples micros;
    for (int n = 0; n < kPollsARound; ++n) {
      micros.push_back(1e6 * seconds_of([this] { poll(); }));
    }
    return median(micros);
  }

  // Steps of SQLite's virtual machine for such a poll, which grow with the rows
  // visited. The distribution's SQLite counts no rows, and the store's
  // statements are out of reach; so the very same ones run here, on a
  // connection of our own.
  double steps() const {
    const Bare bare(path_);
    std::int64_t total = 0;
    const auto count = [&](const sqlite::Sql& sql, std::vector<std::int64_t> values) {
      const auto statement = bare.prepare(sql.text);
      int index = 0;
      for (const std::int64_t value : values) sqlite3_bind_int64(statement.get(), ++index, value);
      run(statement.get());
      total += sqlite3_stmt_status(statement.get(), SQLITE_STMTSTATUS_VM_STEP, 0);
    };
    count(sqlite::sql::kReady, {0, kPolled + 1});
    count(sqlite::sql::kEarliest, {0});
    return static_cast<double>(total);
  }

 private:
  void poll() {
    constexpr int kShards[] = {0};
    instance_->rewind(0);
    if (instance_->ready(kShards, 0, kPolled).rows.size() != kPolled) {
      throw std::runtime_error("poll_cost: not enough rows");
    }
    if (!instance_->due(kShards, kPolled).rows.empty()) {
      throw std::runtime_error("poll_cost: nothing should be due");
    }
  }

  const std::string path_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Instance> instance_;
};

}  // namespace

void poll_cost(const Settings& settings, Scratch& scratch, Report& report) {
  report.begin("poll_cost", "a poll of 100 rows, by the state of the table");
  const auto pending = [](std::size_t rows) { return Filling{.rows = rows}; };
  const auto done = [](std::size_t rows) {
    return Filling{.rows = rows, .hold = "NULL", .status = 1};
  };
  // All of one aggregate; the head among them, as RETRY, makes no difference to
  // a read.
  const auto held = [](std::size_t rows) {
    return Filling{
        .rows = rows, .aggregates = 1, .hold = std::to_string(lane_key("Order", "order-0"))};
  };

  note("filling tables");
  const std::size_t few = 1'000;
  const std::size_t many = settings.size(500'000);
  const std::size_t some_done = settings.size(10'000);
  const std::size_t many_done = settings.size(1'000'000);
  const std::size_t many_held = settings.size(100'000);
  Polled few_pending(scratch, {pending(few)});
  Polled few_again(scratch, {pending(few)});
  Polled many_pending(scratch, {pending(many)});
  Polled few_behind_done(scratch, {done(some_done), pending(few)});
  Polled many_behind_done(scratch, {done(many_done), pending(few)});
  Polled behind_held(scratch, {held(many_held), pending(few)});

  const auto variant = [](std::string name, Polled& polled) {
    return Variant{std::move(name), [&polled] { return polled.time(); }};
  };
  const std::vector<Variant> variants{
      variant(std::to_string(few) + " pending", few_pending),
      variant(std::to_string(few) + " pending, again", few_again),
      variant(std::to_string(many) + " pending", many_pending),
      variant(std::to_string(some_done) + " done", few_behind_done),
      variant(std::to_string(many_done) + " done", many_behind_done),
      variant(std::to_string(many_held) + " held", behind_held),
  };
  const std::vector<const Polled*> polled{&few_pending,     &few_again,        &many_pending,
                                          &few_behind_done, &many_behind_done, &behind_held};
  const std::vector<Samples> times = interleave(variants, settings.rounds);
  std::vector<Samples> steps;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    steps.push_back({polled[i]->steps()});
    report.add(variants[i].name + ", time", times[i], "us");
    report.add(variants[i].name + ", visited", steps[i], "vm steps");
  }
  report.add("pending again / pending, time (control)", ratio(times[1], times[0]), "ratio");
  const auto compare = [&](const std::string& what, std::size_t of, std::size_t to) {
    report.add(what + ", visited", ratio(steps[of], steps[to]), "ratio", at_most(1.1));
    report.add(what + ", time", ratio(times[of], times[to]), "ratio", at_most(1.5));
  };
  compare("many / few pending", 2, 0);
  compare("many / few done", 4, 3);
  compare("held / none held", 5, 0);
  report.print();
}

}  // namespace outbox::bench
