// `outbox demo`: a shop, its outbox and a receiver, with faults at the touch of a key, and a
// verdict; and the processes that it starts.
#include <signal.h>  // NOLINT(modernize-deprecated-headers): SIGHUP is POSIX
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "cli/arguments/arguments.h"
#include "cli/commands/commands.h"
#include "cli/demo/screen.h"
#include "cli/demo/shop.h"
#include "cli/demo/supervisor.h"
#include "cli/errors.h"
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

struct DemoOptions {
  std::optional<int> seconds{};  // runs so long unattended, and does the faults itself
  std::string database{};        // a file that does not exist yet; empty: a temporary one
  RunOptions run{.seed = std::random_device{}()};
};

void say(const std::string& line) { write_out(line + '\n'); }

// One run, from the first process to the last.
class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options), supervisor_(options) {}

  // The receiver first: nobody is to be reported as unavailable for being slow.
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
        if (key == 'b') {
          const bool broken = supervisor_.status(Role::receiver).state == State::broken;
          broken ? supervisor_.heal_receiver() : supervisor_.break_receiver();
        }
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
    const auto store = open_shop(options_.directory);
    step_until(kDrainLimit, [&] { return over_ || !store->has_pending(); });
    stop(Role::dispatcher);
    stop(Role::receiver);
    terminal_.reset();
  }

  RunRecord record() const {
    const auto store = open_shop(options_.directory);
    return {.orders = orders(*store),
            .rolled_back = harness::read_lines(options_.directory.rollbacks()).size(),
            .receipts = harness::read_messages(options_.directory.receipts()),
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
    View view{.started = started_,
              .running = running(),
              .figures = supervisor_.stats().figures(Moment::clock::now()),
              .log = {supervisor_.log().begin(), supervisor_.log().end()},
              .database = options_.directory.database.string(),
              .seed = options_.seed,
              .draining = draining_};
    for (const Role role : kRoles) {
      view.roles.at(static_cast<std::size_t>(role)) = supervisor_.status(role);
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
    supervisor_.stop(role, SIGTERM);
    const auto ended = [&] { return supervisor_.status(role).pid == 0; };
    if (step_until(kStopLimit, ended)) return;
    supervisor_.stop(role, SIGKILL);
    step_until(kStopLimit, ended);
  }

  const RunOptions options_;
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

void introduce(const RunOptions& options, seconds duration) {
  say("outbox demo: a shop takes up to " + std::to_string(options.rate) +
      " orders a second and rolls one in ten back.");
  say("Writer, dispatcher and receiver are processes of their own on one SQLite file.");
  say("Unattended for " + std::to_string(duration.count()) + " s, seed " +
      std::to_string(options.seed) + ", file " + options.directory.database.string());
  say("");
}

Verdict run_and_judge(const DemoOptions& options) {
  Run run(options.run);
  const bool attended = !options.seconds && has_terminal();
  const auto duration = options.seconds ? seconds{*options.seconds} : kDefaultDuration;
  if (!attended) introduce(options.run, duration);
  run.start();
  if (attended) {
    run.follow_keys();
  } else {
    run.follow_schedule(duration);
    say("        the shop closes; the rest is delivered");
  }
  run.drain();
  return judge(run.record());
}

// Where to look when something is wrong.
std::string kept(const RunOptions& options) {
  return "Database and ledgers are kept in " + options.directory.folder.string() + "; seed " +
         std::to_string(options.seed);
}

// Returns whether all promises were kept. Throws PermanentError for a place
// that cannot be used, RetryableError if the system lacks something.
bool run_demo(DemoOptions& options) {
  // The reader of our output may leave early; the run ends properly all the same.
  signal(SIGPIPE, SIG_IGN);
  const RunDirectory& directory = options.run.directory = make_run_directory(options.database);
  try {
    // Alone and first: a database that cannot be used is reported once, clearly.
    open_shop(directory);
  } catch (...) {
    remove_run_directory(directory);
    throw;
  }
  Verdict verdict;
  try {
    verdict = run_and_judge(options);
  } catch (...) {
    say(kept(options.run));
    throw;
  }
  say("");
  write_out(to_text(verdict, cli::wants_color(STDOUT_FILENO)));
  if (!verdict.good()) {
    say("Something is wrong. " + kept(options.run));
    return false;
  }
  remove_run_directory(directory);
  if (!options.database.empty()) say("The database is in " + directory.database.string());
  return true;
}

// --- The command line ---

constexpr const char* kAbout = "See it at work, break it, and count what was lost";

constexpr const char* kFooter =
    "A shop commits orders and rolls one in ten back on purpose. Writer, dispatcher and receiver\n"
    "are separate processes on one SQLite file. In a terminal, these keys do the damage:\n"
    "\n"
    "  b   break the receiver (kill -9), or heal it\n"
    "  k   kill -9 the dispatcher; it comes back\n"
    "  q   quit: deliver the rest, then print the verdict\n"
    "\n"
    "With --seconds, or without a terminal, it does all of this on its own. The final verdict\n"
    "compares the shop's table with the receiver's own ledger.\n"
    "\n"
    "Exit codes: 0 all promises kept; 1 events were lost, made up or out of order; 64 wrong "
    "usage;\n"
    "69 the system lacks something, try again; 78 the database cannot be used.\n"
    "\n"
    "Examples:\n"
    "  outbox demo                           live, in a terminal\n"
    "  outbox demo --seconds 10 --seed 7     unattended, with a verdict at the end";

// Its other processes are started by the demo only.
void add_process(CLI::App& app, cli::Session& session, Role role) {
  CLI::App& command =
      *app.add_subcommand(std::string("demo-") + harness::to_string(role))->group("");
  const auto options = std::make_shared<RunOptions>();
  command.add_option("--folder", options->directory.folder)->required();
  command.add_option("--database", options->directory.database)->required();
  command.add_option("--seed", options->seed);
  command.add_option("--rate", options->rate);
  command.add_flag("--forget-one", options->forget_one);
  cli::on_chosen(command, session, options, [role](const cli::Console&, const RunOptions& chosen) {
    run(role, chosen);
    return cli::kOk;
  });
}

}  // namespace
}  // namespace outbox::demo

namespace outbox::cli {

void add_demo(CLI::App& app, Session& session) {
  CLI::App& command = *app.add_subcommand("demo", demo::kAbout)->footer(demo::kFooter);
  const auto options = std::make_shared<demo::DemoOptions>();
  command
      .add_option("--seconds", options->seconds,
                  "Run unattended for N seconds (default without a terminal: 10)")
      ->check(between(1, 86'400))
      ->type_name("N");
  command
      .add_option("--database", options->database,
                  "New file for the shop's database (default: a temporary one)")
      ->type_name("PATH");
  command
      .add_option("--seed", options->run.seed,
                  "Seed of the shop's choices, to repeat them (default: random)")
      ->type_name("N");
  command.add_option("--rate", options->run.rate, "At most N orders per second (default: 200)")
      ->check(between(1, 100'000))
      ->type_name("N");
  command.add_flag("--forget-one", options->run.forget_one)->group("");
  on_chosen(command, session, options, [](const Console&, demo::DemoOptions& chosen) {
    return demo::run_demo(chosen) ? kOk : kFailed;
  });
  for (const demo::Role role : demo::kRoles) demo::add_process(app, session, role);
}

}  // namespace outbox::cli
