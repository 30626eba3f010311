// What the examples share: a folder to work in, and how they end.
#pragma once

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>

#include "outbox/event.h"

namespace example {

// Runs an example in the folder that the command line names, or in a temporary one;
// its exit status. An error is printed under the example's name.
inline int run_in_folder(int argc, char** argv, const std::string& name,
                         const std::function<void(const std::filesystem::path&)>& run) {
  namespace fs = std::filesystem;
  try {
    if (argc > 1) {
      run(argv[1]);
      return EXIT_SUCCESS;
    }
    const fs::path folder = fs::temp_directory_path() / ("outbox-" + name + "-" + outbox::new_id());
    fs::create_directory(folder);
    run(folder);
    fs::remove_all(folder);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}

// One string a line, because several workers print side by side.
inline void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

inline void expect(bool condition, const std::string& otherwise) {
  if (!condition) throw std::runtime_error(otherwise);
}

}  // namespace example
