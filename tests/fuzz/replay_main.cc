// Runs the files of the given folders through a fuzz target, without a fuzzer:
//
//   replay_<target> FOLDER...
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "target.h"

namespace {

std::vector<std::filesystem::path> files_of(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int argc, char** argv) {
  const auto files = files_of(argc, argv);
  for (const auto& path : files) {
    // Last line before a crash: the culprit.
    std::cout << path.filename().string() << std::endl;
    const std::string text = contents(path);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::cout << files.size() << " seeds\n";
  return files.empty() ? 1 : 0;
}
