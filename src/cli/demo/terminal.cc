#include "cli/demo/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "cli/output/console.h"

namespace outbox::demo {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // other screen, no cursor
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

}  // namespace

Terminal::Terminal() {
  tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  // keys() must not wait.
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write_out(kEnter);
}

Terminal::~Terminal() {
  write_out(kLeave);
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

ScreenSize Terminal::size() {
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) {
    return {};
  }
  return {.columns = window.ws_col, .rows = window.ws_row};
}

void Terminal::draw(std::string_view text) {
  // In one write, line by line over the old picture: clearing it first flickers.
  std::string picture(kHome);
  while (true) {
    const auto end = text.find('\n');
    // Before the text: behind a full line it would take the last character away.
    picture += kClearLine;
    picture += text.substr(0, end);
    if (end == std::string_view::npos) break;
    picture += "\r\n";
    text.remove_prefix(end + 1);
  }
  picture += kClearBelow;
  write_out(picture);
}

std::string Terminal::keys() {
  char buffer[64];
  const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
  return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : std::string();
}

bool has_terminal() { return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1; }

bool wants_color() { return cli::wants_color(STDOUT_FILENO); }

void write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0) {
      if (errno != EINTR) return;  // nobody looks any more; the run goes on
      continue;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace outbox::demo
