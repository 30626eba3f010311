#include "harness/ledger.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "outbox/error.h"

namespace outbox::harness {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  const int reason = errno;
  throw PermanentError(std::string("cannot ") + what + " " + path + ": " + std::strerror(reason));
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Ledger::Ledger(const std::string& path) : path_(path), file_(append_to(path)) {
  const std::string text = contents_of(path_);
  const std::size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  if (whole < text.size() && ftruncate(file_.get(), static_cast<off_t>(whole)) != 0) {
    fail(path_, "repair");
  }
}

void Ledger::append(std::string_view line) {
  const std::string text = std::string(line) + '\n';
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno != EINTR) fail(path_, "write to");
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Ledger::sync() {
  if (fdatasync(file_.get()) != 0) fail(path_, "sync");
}

std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = contents_of(path);
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

}  // namespace outbox::harness
