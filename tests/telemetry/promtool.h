// The judge of Prometheus' own text format.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace outbox::telemetry_tests {

// Passes if `promtool check <what>` finds nothing to complain about in the text,
// and fails if promtool is not installed: a check that is skipped in silence is
// none. Of metrics, a remark about style is a complaint.
inline ::testing::AssertionResult promtool_accepts(const std::string& text,
                                                   const std::string& what = "metrics") {
  std::string path = ::testing::TempDir() + "outbox_promtool_XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return ::testing::AssertionFailure() << "mkstemp " << path;
  close(file);
  std::ofstream(path) << text;

  const bool from_input = what == "metrics";
  const std::string command = "promtool check " + what + (from_input ? " <" : " ") + path + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ::testing::AssertionFailure() << "popen";
  std::string said;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
    said.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  unlink(path.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return ::testing::AssertionFailure() << "promtool is missing; scripts/deps test installs it\n"
                                         << said;
  }
  if (status != 0 || (from_input && !said.empty())) {
    return ::testing::AssertionFailure() << "promtool says (status " << status << "):\n" << said;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace outbox::telemetry_tests
