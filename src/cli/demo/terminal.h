// The user's terminal: a screen of our own, and keys without Enter.
#pragma once

#include <termios.h>

#include <string>
#include <string_view>

#include "cli/demo/screen.h"

namespace outbox::demo {

// Takes the terminal over while it lives and leaves it as it was. Not
// thread-safe.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static ScreenSize size();

  // Replaces what is on the screen.
  void draw(std::string_view text);

  // The keys that were pressed.
  std::string keys();

 private:
  termios before_{};
};

// Whether both ends of a conversation with a user are there.
bool has_terminal();

// Whether text on standard output may be colored: a terminal, and neither
// NO_COLOR nor TERM=dumb asks us not to.
bool wants_color();

// All of it, in spite of signals and short writes.
void write_out(std::string_view text);

}  // namespace outbox::demo
