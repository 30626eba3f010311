#include "run_record.h"

#include <cstdlib>
#include <stdexcept>

#include "harness/ledger.h"

namespace outbox::chaos {
namespace {

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = line.find('\t', begin);
    fields.push_back(line.substr(begin, end - begin));
  }
  return fields;
}

std::string joined(const RunRecord& record, std::string RunRecord::value_type::*part) {
  std::string line;
  const char* separator = "";
  for (const auto& column : record) {
    line.append(separator).append(column.*part);
    separator = "\t";
  }
  return line;
}

}  // namespace

void append_record(const std::string& path, const RunRecord& record) {
  const std::string columns = joined(record, &RunRecord::value_type::first);
  const std::vector<std::string> lines = harness::read_lines(path);
  if (!lines.empty() && lines.front() != columns) {
    throw std::runtime_error(path + " has other columns than this run: move it away");
  }
  harness::Ledger file(path);
  if (lines.empty()) file.append(columns);
  file.append(joined(record, &RunRecord::value_type::second));
}

std::string PastRun::text(std::string_view column) const {
  const auto found = values_.find(column);
  return found == values_.end() ? std::string() : found->second;
}

std::int64_t PastRun::number(std::string_view column) const {
  return std::strtoll(text(column).c_str(), nullptr, 10);
}

std::vector<PastRun> read_records(const std::string& path) {
  const std::vector<std::string> lines = harness::read_lines(path);
  std::vector<PastRun> runs;
  if (lines.empty()) return runs;
  const std::vector<std::string> columns = fields_of(lines.front());
  for (std::size_t line = 1; line < lines.size(); ++line) {
    const std::vector<std::string> fields = fields_of(lines[line]);
    if (fields.size() != columns.size()) continue;
    std::map<std::string, std::string, std::less<>> values;
    for (std::size_t i = 0; i < columns.size(); ++i) values[columns[i]] = fields[i];
    runs.emplace_back(std::move(values));
  }
  return runs;
}

}  // namespace outbox::chaos
