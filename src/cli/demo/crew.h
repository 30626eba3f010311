// The processes of one demo: starts them, restarts them, breaks them.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/demo/child.h"
#include "cli/demo/report.h"
#include "cli/demo/role.h"
#include "cli/demo/tally.h"

namespace outbox::demo {

enum class Post : std::uint8_t { writer, dispatcher, receiver };
inline constexpr std::array kPosts{Post::writer, Post::dispatcher, Post::receiver};

const char* to_string(Post post);

struct CrewMember {
  enum class State : std::uint8_t { waiting, starting, up, restarting, broken, stopped };

  State state = State::waiting;
  pid_t pid = 0;     // while starting or up
  int restarts = 0;  // how often it came back
};

const char* to_string(CrewMember::State state);

struct LogLine {
  Moment at{};
  std::string text{};
};

// Whoever dies is started again after a moment, unless it was broken on purpose
// or told to stop. Not thread-safe.
class Crew {
 public:
  Crew(WriterRole writer, DispatcherRole dispatcher, ReceiverRole receiver);

  void start(Post post);
  void kill_dispatcher();
  void break_receiver();
  void heal_receiver();
  bool receiver_is_broken() const;

  // Asks it to end by itself; kill() does not ask.
  void stop(Post post);
  void kill(Post post);

  // Waits until something happens or the time is over, and takes notice of it.
  // `others` are polled along. Throws UnavailableError if a process keeps dying
  // before it is ready.
  void attend(std::span<pollfd> others, std::chrono::milliseconds timeout);

  const CrewMember& member(Post post) const { return place(post).member; }
  const Tally& tally() const { return tally_; }

  // The last lines, the newest at the end.
  const std::deque<LogLine>& log() const { return log_; }
  int kills() const { return kills_; }

  // Deaths that nobody here had ordered; each with who and how.
  const std::vector<std::string>& accidents() const { return accidents_; }

 private:
  struct Place {
    std::vector<std::string> command{};
    CrewMember member{};
    std::unique_ptr<Child> child{};
    Moment restart_at{};
    int failures = 0;  // deaths before it was ready, in a row
  };

  Place& place(Post post) { return places_.at(static_cast<std::size_t>(post)); }
  const Place& place(Post post) const { return places_.at(static_cast<std::size_t>(post)); }
  void listen_to(Post post);
  void take_notice(Post post, const Report& report);
  void note(Post post, const std::string& text);
  void evict(Post post);
  void restart_those_due();

  std::array<Place, kPosts.size()> places_{};
  Tally tally_;
  std::deque<LogLine> log_;
  int kills_ = 0;
  std::vector<std::string> accidents_;
};

}  // namespace outbox::demo
