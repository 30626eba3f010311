// What the fuzz targets share. Each is a file that defines
// LLVMFuzzerTestOneInput; with libFuzzer it makes a fuzzer, and with
// replay_main.cc a test that runs its seeds, by any compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace outbox::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    lines.push_back(line);
    text.remove_prefix(line.size() == text.size() ? text.size() : line.size() + 1);
  }
  return lines;
}

// Ends the process if it does not hold: that is what a fuzzer takes for a fault.
inline void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace outbox::fuzz
