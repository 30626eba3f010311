// A file that only grows, a line at a time, and survives its writer's death.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/process.h"

namespace outbox::harness {

// Appends lines, each with one write(2): it is in the page cache then, and survives the death of
// the process. Not thread-safe.
class Ledger {
 public:
  // Cuts off what a killed process left unfinished. Throws PermanentError if the file cannot be
  // opened, created or repaired.
  explicit Ledger(const std::string& path);

  // Text without a newline, which is added. Throws PermanentError.
  void append(std::string_view line);

  // On the disk afterwards. Throws PermanentError.
  void sync();

 private:
  std::string path_;
  Descriptor file_;
};

// The complete lines of the file; none if there is no such file.
std::vector<std::string> read_lines(const std::string& path);

}  // namespace outbox::harness
