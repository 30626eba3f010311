// The receiver's own book: what arrived, a line each, in the order of arrival.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "oracle.h"

namespace outbox::chaos {

// A line without its end; also what a dispatcher sends. parse_line() throws
// std::runtime_error for anything that to_line() did not make.
std::string to_line(const Arrival& arrival);
Arrival parse_line(std::string_view line);

// An append-only file. Every line is one write(2): what was written is in the
// page cache and survives the death of the process, which is the only death
// here, so that no fsync is needed. Not thread-safe.
class Ledger {
 public:
  // Cuts a last line that a death left torn: it was never acknowledged.
  explicit Ledger(const std::string& path);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  void append(std::string_view line);

 private:
  int file_;
};

// The whole lines of such a file; none if it does not exist.
std::vector<std::string> read_lines(const std::string& path);
std::vector<Arrival> read_ledger(const std::string& path);

}  // namespace outbox::chaos
