#include "cli/demo/ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "outbox/error.h"

namespace outbox::demo {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  const int reason = errno;
  throw PermanentError(std::string("cannot ") + what + " " + path + ": " + std::strerror(reason));
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return std::move(text).str();
}

// How many bytes the complete lines take.
std::size_t complete(std::string_view text) {
  const auto last = text.rfind('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

}  // namespace

Ledger::Ledger(const std::string& path)
    : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (file_ < 0) fail(path_, "open");
  const std::string text = contents(path_);
  const std::size_t whole = complete(text);
  if (whole != text.size() && ftruncate(file_, static_cast<off_t>(whole)) != 0) {
    fail(path_, "repair");
  }
}

Ledger::~Ledger() { close(file_); }

void Ledger::append(std::string_view line) {
  unwritten_ += line;
  unwritten_ += '\n';
}

void Ledger::sync() {
  std::string_view rest = unwritten_;
  while (!rest.empty()) {
    const ssize_t written = write(file_, rest.data(), rest.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(path_, "write to");
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  unwritten_.clear();
  if (fdatasync(file_) != 0) fail(path_, "sync");
}

std::vector<std::string> read_ledger(const std::string& path) {
  std::string text = contents(path);
  text.resize(complete(text));
  std::vector<std::string> lines;
  std::istringstream stream(std::move(text));
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace outbox::demo
