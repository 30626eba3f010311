#include "cli/demo/crew.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): SIGKILL is POSIX

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::demo {
namespace {

using State = CrewMember::State;
using std::chrono::milliseconds;

// Long enough to be seen, short enough not to bore.
constexpr milliseconds kRestartAfter{500};
constexpr int kMaxFailures = 3;
constexpr std::size_t kLogLines = 8;

std::vector<std::string> command(const char* name, const Workplace& workplace) {
  return {name, "--folder", workplace.folder.string(), "--database", workplace.database.string()};
}

std::string describe(const Ending& ending) {
  return ending.signal != 0 ? "was killed (signal " + std::to_string(ending.signal) + ")"
                            : "ended with exit code " + std::to_string(ending.exit_code);
}

}  // namespace

const char* to_string(Post post) {
  switch (post) {
    case Post::writer:
      return "writer";
    case Post::dispatcher:
      return "dispatcher";
    case Post::receiver:
      break;
  }
  return "receiver";
}

const char* to_string(State state) {
  switch (state) {
    case State::waiting:
      return "waiting";
    case State::starting:
      return "starting";
    case State::up:
      return "up";
    case State::restarting:
      return "restarting";
    case State::broken:
      return "broken";
    case State::stopped:
      break;
  }
  return "stopped";
}

Crew::Crew(WriterRole writer, DispatcherRole dispatcher, ReceiverRole receiver) {
  place(Post::writer).command = command("demo-writer", writer.workplace);
  for (std::string word : {std::string("--seed"), std::to_string(writer.seed),
                           std::string("--rate"), std::to_string(writer.rate)}) {
    place(Post::writer).command.push_back(std::move(word));
  }
  place(Post::dispatcher).command = command("demo-dispatcher", dispatcher.workplace);
  place(Post::receiver).command = command("demo-receiver", receiver.workplace);
  if (receiver.forget_one) place(Post::receiver).command.emplace_back("--forget-one");
}

void Crew::start(Post post) {
  Place& at = place(post);
  at.child = std::make_unique<Child>(at.command);
  at.member.state = State::starting;
  at.member.pid = at.child->pid();
}

void Crew::kill_dispatcher() {
  Place& at = place(Post::dispatcher);
  if (at.member.state != State::starting && at.member.state != State::up) return;
  ++kills_;
  at.member.state = State::restarting;
  at.restart_at = Moment::clock::now() + kRestartAfter;
  at.child->signal(SIGKILL);
}

void Crew::break_receiver() {
  Place& at = place(Post::receiver);
  if (!at.child || at.member.state == State::stopped) return;
  ++kills_;
  at.member.state = State::broken;
  at.child->signal(SIGKILL);
}

void Crew::heal_receiver() {
  Place& at = place(Post::receiver);
  if (at.member.state != State::broken) return;
  at.member.state = State::restarting;
  at.restart_at = Moment::clock::now();
}

bool Crew::receiver_is_broken() const { return member(Post::receiver).state == State::broken; }

void Crew::stop(Post post) {
  Place& at = place(post);
  at.member.state = State::stopped;
  if (at.child) at.child->signal(SIGTERM);
}

void Crew::kill(Post post) {
  Place& at = place(post);
  at.member.state = State::stopped;
  if (at.child) at.child->signal(SIGKILL);
}

void Crew::attend(std::span<pollfd> others, milliseconds timeout) {
  std::vector<pollfd> all(others.begin(), others.end());
  for (const Post post : kPosts) {
    const Place& at = place(post);
    // A negative descriptor is skipped by poll.
    all.push_back({.fd = at.child ? at.child->descriptor() : -1, .events = POLLIN, .revents = 0});
    if (at.member.state == State::restarting && !at.child) {
      const auto left = std::chrono::ceil<milliseconds>(at.restart_at - Moment::clock::now());
      timeout = std::clamp(left, milliseconds{0}, timeout);
    }
  }
  if (poll(all.data(), all.size(), static_cast<int>(timeout.count())) > 0) {
    std::copy_n(all.begin(), others.size(), others.begin());
    for (std::size_t n = 0; n < kPosts.size(); ++n) {
      if (all[others.size() + n].revents != 0) listen_to(kPosts[n]);
    }
  }
  restart_those_due();
}

void Crew::listen_to(Post post) {
  std::vector<std::string> lines;
  const bool alive = place(post).child->read(lines);
  for (const std::string& line : lines) take_notice(post, Report::parse(line));
  if (!alive) evict(post);
}

void Crew::take_notice(Post post, const Report& report) {
  Place& at = place(post);
  if (report.kind == Report::Kind::log) {
    note(post, report.text);
  } else if (report.kind == Report::Kind::ready) {
    if (at.member.state == State::starting) at.member.state = State::up;
    at.failures = 0;
  } else {
    tally_.add(report);
  }
}

void Crew::note(Post post, const std::string& text) {
  log_.push_back({Moment::clock::now(), std::string(to_string(post)) + ": " + printable(text)});
  if (log_.size() > kLogLines) log_.pop_front();
}

void Crew::evict(Post post) {
  Place& at = place(post);
  const Ending ending = at.child->ending();
  at.child.reset();
  at.member.pid = 0;
  if (at.member.state == State::stopped) return;
  const std::string last_words = log_.empty() ? "none" : log_.back().text;
  note(post, "it " + describe(ending));
  if (at.member.state == State::broken) return;
  if (at.member.state == State::starting && ++at.failures >= kMaxFailures) {
    throw UnavailableError(std::string("the ") + to_string(post) + " does not start: it " +
                           describe(ending) + " " + std::to_string(kMaxFailures) +
                           " times; the last words were: " + last_words);
  }
  if (at.member.state != State::restarting) {
    accidents_.push_back(std::string("the ") + to_string(post) + ' ' + describe(ending));
    at.member.state = State::restarting;
    at.restart_at = Moment::clock::now() + kRestartAfter;
  }
}

void Crew::restart_those_due() {
  for (const Post post : kPosts) {
    Place& at = place(post);
    if (at.member.state != State::restarting || at.child) continue;
    if (Moment::clock::now() < at.restart_at) continue;
    start(post);
    ++at.member.restarts;
  }
}

}  // namespace outbox::demo
