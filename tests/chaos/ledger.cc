#include "ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace outbox::chaos {
namespace {

// Stands for an empty aggregate, so that every line has the same fields.
constexpr std::string_view kNone = "-";

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

std::string to_line(const Arrival& arrival) {
  std::ostringstream line;
  line << arrival.id << ' '
       << (arrival.aggregate.empty() ? kNone : std::string_view(arrival.aggregate)) << ' '
       << arrival.number << ' ' << arrival.epoch << ' ' << arrival.process << ' ' << arrival.attempt
       << ' ' << arrival.at;
  return line.str();
}

Arrival parse_line(std::string_view line) {
  std::istringstream in{std::string(line)};
  Arrival arrival;
  in >> arrival.id >> arrival.aggregate >> arrival.number >> arrival.epoch >> arrival.process >>
      arrival.attempt >> arrival.at;
  std::string rest;
  if (!in || in >> rest) throw std::runtime_error("not a line of a ledger: " + std::string(line));
  if (arrival.aggregate == kNone) arrival.aggregate.clear();
  return arrival;
}

Ledger::Ledger(const std::string& path)
    : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (file_ < 0) fail("cannot open " + path);
  const std::string text = contents_of(path);
  const std::size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  if (whole < text.size() && ftruncate(file_, static_cast<off_t>(whole)) != 0) {
    const int error = errno;
    close(file_);
    errno = error;
    fail("cannot cut " + path);
  }
}

Ledger::~Ledger() { close(file_); }

void Ledger::append(std::string_view line) {
  const std::string text = std::string(line) + '\n';
  const ssize_t written = write(file_, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) fail("cannot write to the ledger");
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

std::vector<Arrival> read_ledger(const std::string& path) {
  std::vector<Arrival> arrivals;
  for (const std::string& line : read_lines(path)) arrivals.push_back(parse_line(line));
  return arrivals;
}

}  // namespace outbox::chaos
