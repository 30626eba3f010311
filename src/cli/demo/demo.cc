#include "cli/demo/demo.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): SIGHUP is POSIX
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "cli/demo/crew.h"
#include "cli/demo/ledger.h"
#include "cli/demo/screen.h"
#include "cli/demo/shop.h"
#include "cli/demo/stop_signal.h"
#include "cli/demo/terminal.h"
#include "cli/demo/verdict.h"
#include "cli/demo/workplace.h"
#include "outbox/error.h"

namespace outbox::demo {
namespace {

using namespace std::chrono_literals;
using State = CrewMember::State;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kDefaultDuration{10};
constexpr milliseconds kRedrawEvery{200};
constexpr seconds kStartLimit{20};
constexpr seconds kStopLimit{10};
constexpr seconds kDrainLimit{60};

const Logger kSilent = [](LogLevel, std::string_view) {};

void say(const std::string& line) { write_out(line + '\n'); }

// One run, from the first process to the last.
class Run {
 public:
  Run(const DemoOptions& options, const Workplace& workplace)
      : options_(options),
        workplace_(workplace),
        crew_({.workplace = workplace, .seed = options.seed, .rate = options.rate},
              {.workplace = workplace},
              {.workplace = workplace, .forget_one = options.forget_one}) {}

  // The receiver first: nobody is to be reported as away for being slow.
  void start() {
    for (const Post post : {Post::receiver, Post::dispatcher, Post::writer}) {
      crew_.start(post);
      const bool up =
          attend_until(kStartLimit, [&] { return crew_.member(post).state == State::up; });
      if (!up) throw UnavailableError(std::string("the ") + to_string(post) + " does not start");
    }
    started_ = Moment::clock::now();
  }

  // Until the user has seen enough.
  void follow_keys() {
    terminal_ = std::make_unique<Terminal>();
    while (!over_) {
      attend(kRedrawEvery);
      for (const char key : keys_) {
        if (key == 'k') crew_.kill_dispatcher();
        if (key == 'b') crew_.receiver_is_broken() ? crew_.heal_receiver() : crew_.break_receiver();
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
        Act{25, "** the receiver is killed: events wait", [&] { crew_.break_receiver(); }},
        Act{45, "** the receiver is healed", [&] { crew_.heal_receiver(); }},
        Act{65, "** kill -9 of the dispatcher; it comes back", [&] { crew_.kill_dispatcher(); }}};
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
    crew_.heal_receiver();
    stop(Post::writer);
    const auto store = open_shop(workplace_.database.string(), kSilent);
    attend_until(kDrainLimit, [&] { return over_ || !store->has_pending(); });
    stop(Post::dispatcher);
    stop(Post::receiver);
    terminal_.reset();
  }

  Evidence evidence() const {
    const auto store = open_shop(workplace_.database.string(), kSilent);
    Evidence result{.orders = orders(*store),
                    .rolled_back = read_ledger(workplace_.rollbacks()),
                    .pending = pending_events(*store),
                    .kills = crew_.kills()};
    for (const std::string& line : read_ledger(workplace_.receipts())) {
      if (auto parcel = Parcel::parse(line)) result.receipts.push_back(std::move(*parcel));
    }
    return result;
  }

 private:
  seconds running() const {
    return std::chrono::duration_cast<seconds>(Moment::clock::now() - started_);
  }

  // One round: what the processes tell, signals, keys, and the screen.
  void attend(milliseconds timeout) {
    std::array<pollfd, 2> others{
        {{.fd = stop_.descriptor(), .events = POLLIN, .revents = 0},
         {.fd = terminal_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}}};
    crew_.attend(others, std::min(timeout, kRedrawEvery));
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
              .figures = crew_.tally().figures(Moment::clock::now()),
              .database = workplace_.database.string(),
              .seed = options_.seed,
              .draining = draining_};
    for (const Post post : kPosts) {
      view.crew.at(static_cast<std::size_t>(post)) = crew_.member(post);
    }
    for (const LogLine& line : crew_.log()) {
      const auto at = std::max(line.at - started_, Moment::duration::zero());
      view.log.push_back({std::chrono::duration_cast<seconds>(at), line.text});
    }
    terminal_->draw(render(view, Terminal::size(), color_));
  }

  template <class Condition>
  bool attend_until(milliseconds limit, Condition condition) {
    const auto deadline = Moment::clock::now() + limit;
    while (!condition()) {
      if (Moment::clock::now() >= deadline) return false;
      attend(50ms);
    }
    return true;
  }

  // False if the user asked to end it first.
  bool show_progress_until(Moment end) {
    while (!over_ && Moment::clock::now() < end) {
      const auto next_second = started_ + running() + 1s;
      const auto next = std::min(end, next_second);
      if (Moment::clock::now() < next) {
        attend(std::chrono::ceil<milliseconds>(next - Moment::clock::now()));
      }
      if (Moment::clock::now() >= next_second) {
        say(progress_line(running(), crew_.tally().figures(Moment::clock::now())));
      }
    }
    return !over_;
  }

  void stop(Post post) {
    crew_.stop(post);
    const auto ended = [&] { return crew_.member(post).pid == 0; };
    if (attend_until(kStopLimit, ended)) return;
    crew_.kill(post);
    attend_until(kStopLimit, ended);
  }

  const DemoOptions options_;
  const Workplace workplace_;
  const bool color_ = wants_color();
  StopSignal stop_{SIGINT, SIGTERM, SIGHUP};
  Crew crew_;
  std::unique_ptr<Terminal> terminal_;  // while somebody looks
  std::string keys_;                    // pressed in the last round
  Moment started_{};
  Moment redraw_at_{};
  bool over_ = false;
  bool draining_ = false;
};

void introduce(const DemoOptions& options, const Workplace& workplace, seconds duration) {
  say("outbox demo: a shop takes up to " + std::to_string(options.rate) +
      " orders a second and rolls one in ten back.");
  say("Writer, dispatcher and receiver are processes of their own on one SQLite file.");
  say("Unattended for " + std::to_string(duration.count()) + " s, seed " +
      std::to_string(options.seed) + ", file " + workplace.database.string());
  say("");
}

Verdict perform(const DemoOptions& options, const Workplace& workplace) {
  Run run(options, workplace);
  const bool attended = !options.duration && has_terminal();
  const seconds duration = options.duration.value_or(kDefaultDuration);
  if (!attended) introduce(options, workplace, duration);
  run.start();
  if (attended) {
    run.follow_keys();
  } else {
    run.follow_schedule(duration);
    say("        the shop closes; what is left is delivered");
  }
  run.drain();
  return judge(run.evidence());
}

// Where to look when something is wrong.
std::string kept(const DemoOptions& options, const Workplace& workplace) {
  return "Database and ledgers are kept in " + workplace.folder.string() + "; seed " +
         std::to_string(options.seed);
}

}  // namespace

bool run_demo(const DemoOptions& options) {
  // Whoever reads our output may leave early; the run ends properly all the same.
  signal(SIGPIPE, SIG_IGN);
  const Workplace workplace = make_workplace(options.database);
  try {
    // Alone and first: a database that cannot be used is reported once, clearly.
    open_shop(workplace.database.string(), kSilent);
  } catch (...) {
    remove_workplace(workplace);
    throw;
  }
  Verdict verdict;
  try {
    verdict = perform(options, workplace);
  } catch (...) {
    say(kept(options, workplace));
    throw;
  }
  say("");
  write_out(to_text(verdict, wants_color()));
  if (!verdict.good()) {
    say("Something is wrong. " + kept(options, workplace));
    return false;
  }
  remove_workplace(workplace);
  if (!options.database.empty()) say("The database is in " + workplace.database.string());
  return true;
}

}  // namespace outbox::demo
