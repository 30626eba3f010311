// A file that only grows, a line at a time, and survives its writer's death.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outbox::demo {

// Appends lines. What a killed process left unfinished is cut off when the file
// is opened again. Not thread-safe.
class Ledger {
 public:
  // Throws PermanentError if the file cannot be opened, created or repaired.
  explicit Ledger(const std::string& path);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Text without a newline, which is added. It is on the disk after sync().
  void append(std::string_view line);
  void sync();

 private:
  std::string path_;
  int file_;
  std::string unwritten_;
};

// The complete lines of the file; none if there is no such file.
std::vector<std::string> read_ledger(const std::string& path);

}  // namespace outbox::demo
