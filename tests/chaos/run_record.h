// The figures of runs: a tab-separated file with a line for each, to be added up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::chaos {

// The columns of one run, in the order of the file.
using RunRecord = std::vector<std::pair<std::string, std::string>>;

// Adds a line, in one write; to a new file, the names of the columns first. Throws
// std::runtime_error if the file has others, or cannot be written.
void append_record(const std::string& path, const RunRecord& record);

// A line that was read, by the names of the columns.
class PastRun {
 public:
  explicit PastRun(std::map<std::string, std::string, std::less<>> values)
      : values_(std::move(values)) {}

  // Empty and 0 if there is no such column.
  std::string text(std::string_view column) const;
  std::int64_t number(std::string_view column) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// None if there is no file. A last line that was cut short is left out.
std::vector<PastRun> read_records(const std::string& path);

}  // namespace outbox::chaos
