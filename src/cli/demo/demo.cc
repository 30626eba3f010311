#include "cli/demo/demo.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): SIGHUP is POSIX
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "cli/demo/screen.h"
#include "cli/demo/shop.h"
#include "cli/demo/supervisor.h"
#include "cli/demo/verdict.h"
#include "cli/output/console.h"
#include "harness/ledger.h"
#include "harness/process.h"
#include "harness/receiver.h"
#include "outbox/error.h"

namespace outbox::demo {
namespace {

using namespace std::chrono_literals;
using State = RoleStatus::State;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kDefaultDuration{10};
constexpr milliseconds kRedrawEvery{200};
constexpr seconds kStartLimit{20};
constexpr seconds kStopLimit{10};
constexpr seconds kDrainLimit{60};

const Logger kSilent = [](const LogRecord&) {};

void say(const std::string& line) { write_out(line + '\n'); }

// One run, from the first process to the last.
class Run {
 public:
  Run(const DemoOptions& options, const RunDirectory& directory)
      : options_(options),
        directory_(directory),
        supervisor_({.directory = directory, .seed = options.seed, .rate = options.rate},
                    {.directory = directory},
                    {.directory = directory, .forget_one = options.forget_one}) {}

  // The receiver first: nobody is to be reported as away for being slow.
  void start() {
    for (const Role role : {Role::receiver, Role::dispatcher, Role::writer}) {
      supervisor_.start(role);
      const bool up =
          step_until(kStartLimit, [&] { return supervisor_.status(role).state == State::up; });
      if (!up) throw UnavailableError(std::string("the ") + to_string(role) + " does not start");
    }
    started_ = Moment::clock::now();
  }

  // Until the user has seen enough.
  void follow_keys() {
    terminal_ = std::make_unique<Terminal>();
    while (!over_) {
      step(kRedrawEvery);
      for (const char key : keys_) {
        if (key == 'k') supervisor_.kill_dispatcher();
        if (key == 'b')
          supervisor_.receiver_is_broken() ? supervisor_.heal_receiver()
                                           : supervisor_.break_receiver();
        if (key == 'q') over_ = true;
      }
    }
  }

  void follow_schedule(seconds duration) {
    struct Act {
      int percent;  // of the time
      const char* announcement;
      std::function<void()> act;
    };
    const std::array acts{
        Act{25, "** the receiver is killed: events wait", [&] { supervisor_.break_receiver(); }},
        Act{45, "** the receiver is healed", [&] { supervisor_.heal_receiver(); }},
        Act{65, "** kill -9 of the dispatcher; it comes back",
            [&] { supervisor_.kill_dispatcher(); }}};
    for (const Act& next : acts) {
      if (!show_progress_until(started_ + milliseconds(duration) * next.percent / 100)) return;
      say(std::string("        ") + next.announcement);
      next.act();
    }
    show_progress_until(started_ + duration);
  }

  // Closes the shop and waits until everything is delivered, the user loses
  // patience or the time is over; then stops all.
  void drain() {
    over_ = false;
    draining_ = true;
    supervisor_.heal_receiver();
    stop(Role::writer);
    const auto store = open_shop(directory_.database.string(), kSilent);
    step_until(kDrainLimit, [&] { return over_ || !store->has_pending(); });
    stop(Role::dispatcher);
    stop(Role::receiver);
    terminal_.reset();
  }

  RunRecord record() const {
    const auto store = open_shop(directory_.database.string(), kSilent);
    return {.orders = orders(*store),
            .rolled_back = harness::read_lines(directory_.rollbacks()).size(),
            .receipts = harness::read_messages(directory_.receipts()),
            .pending = pending_events(*store),
            .kills = supervisor_.kills(),
            .unexpected_exits = supervisor_.unexpected_exits()};
  }

 private:
  seconds running() const {
    return std::chrono::duration_cast<seconds>(Moment::clock::now() - started_);
  }

  // One round: what the processes tell, signals, keys, and the screen.
  void step(milliseconds timeout) {
    std::array<pollfd, 2> others{
        {{.fd = stop_.descriptor(), .events = POLLIN, .revents = 0},
         {.fd = terminal_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}}};
    supervisor_.step(others, std::min(timeout, kRedrawEvery));
    if (stop_.take()) over_ = true;
    keys_.clear();
    if (others[1].revents != 0) {
      keys_ = terminal_->keys();
      if (keys_.empty()) over_ = true;  // the terminal is gone
    }
    if (terminal_ && Moment::clock::now() >= redraw_at_) draw();
  }

  void draw() {
    redraw_at_ = Moment::clock::now() + kRedrawEvery;
    View view{.running = running(),
              .figures = supervisor_.stats().figures(Moment::clock::now()),
              .database = directory_.database.string(),
              .seed = options_.seed,
              .draining = draining_};
    for (const Role role : kRoles) {
      view.roles.at(static_cast<std::size_t>(role)) = supervisor_.status(role);
    }
    for (const LogLine& line : supervisor_.log()) {
      const auto at = std::max(line.at - started_, Moment::duration::zero());
      view.log.push_back({std::chrono::duration_cast<seconds>(at), line.text});
    }
    terminal_->draw(render(view, Terminal::size(), color_));
  }

  template <class Condition>
  bool step_until(milliseconds limit, Condition condition) {
    const auto deadline = Moment::clock::now() + limit;
    while (!condition()) {
      if (Moment::clock::now() >= deadline) return false;
      step(50ms);
    }
    return true;
  }

  // False if the user asked to end it first.
  bool show_progress_until(Moment end) {
    while (!over_ && Moment::clock::now() < end) {
      const auto next_second = started_ + running() + 1s;
      const auto next = std::min(end, next_second);
      if (Moment::clock::now() < next) {
        step(std::chrono::ceil<milliseconds>(next - Moment::clock::now()));
      }
      if (Moment::clock::now() >= next_second) {
        say(progress_line(running(), supervisor_.stats().figures(Moment::clock::now())));
      }
    }
    return !over_;
  }

  void stop(Role role) {
    supervisor_.stop(role);
    const auto ended = [&] { return supervisor_.status(role).pid == 0; };
    if (step_until(kStopLimit, ended)) return;
    supervisor_.kill(role);
    step_until(kStopLimit, ended);
  }

  const DemoOptions options_;
  const RunDirectory directory_;
  const bool color_ = cli::wants_color(STDOUT_FILENO);
  harness::Signals stop_{SIGINT, SIGTERM, SIGHUP};
  Supervisor supervisor_;
  std::unique_ptr<Terminal> terminal_;  // while somebody looks
  std::string keys_;                    // pressed in the last round
  Moment started_{};
  Moment redraw_at_{};
  bool over_ = false;
  bool draining_ = false;
};

void introduce(const DemoOptions& options, const RunDirectory& directory, seconds duration) {
  say("outbox demo: a shop takes up to " + std::to_string(options.rate) +
      " orders a second and rolls one in ten back.");
  say("Writer, dispatcher and receiver are processes of their own on one SQLite file.");
  say("Unattended for " + std::to_string(duration.count()) + " s, seed " +
      std::to_string(options.seed) + ", file " + directory.database.string());
  say("");
}

Verdict run_and_judge(const DemoOptions& options, const RunDirectory& directory) {
  Run run(options, directory);
  const bool attended = !options.duration && has_terminal();
  const seconds duration = options.duration.value_or(kDefaultDuration);
  if (!attended) introduce(options, directory, duration);
  run.start();
  if (attended) {
    run.follow_keys();
  } else {
    run.follow_schedule(duration);
    say("        the shop closes; what is left is delivered");
  }
  run.drain();
  return judge(run.record());
}

// Where to look when something is wrong.
std::string kept(const DemoOptions& options, const RunDirectory& directory) {
  return "Database and ledgers are kept in " + directory.folder.string() + "; seed " +
         std::to_string(options.seed);
}

}  // namespace

bool run_demo(const DemoOptions& options) {
  // Whoever reads our output may leave early; the run ends properly all the same.
  signal(SIGPIPE, SIG_IGN);
  const RunDirectory directory = make_run_directory(options.database);
  try {
    // Alone and first: a database that cannot be used is reported once, clearly.
    open_shop(directory.database.string(), kSilent);
  } catch (...) {
    remove_run_directory(directory);
    throw;
  }
  Verdict verdict;
  try {
    verdict = run_and_judge(options, directory);
  } catch (...) {
    say(kept(options, directory));
    throw;
  }
  say("");
  write_out(to_text(verdict, cli::wants_color(STDOUT_FILENO)));
  if (!verdict.good()) {
    say("Something is wrong. " + kept(options, directory));
    return false;
  }
  remove_run_directory(directory);
  if (!options.database.empty()) say("The database is in " + directory.database.string());
  return true;
}

}  // namespace outbox::demo
