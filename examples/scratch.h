// What the examples share: where they work, and how they end.
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

// Runs an example; its exit status. An error is printed under the example's name.
inline int run(const std::string& name, const std::function<void()>& example) {
  try {
    example();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}

// In a temporary folder, which is removed unless the example fails.
inline int run_in_temporary_folder(
    const std::string& name, const std::function<void(const std::filesystem::path&)>& example) {
  namespace fs = std::filesystem;
  return run(name, [&] {
    const fs::path folder = fs::temp_directory_path() / ("outbox-" + name + "-" + outbox::new_id());
    fs::create_directory(folder);
    example(folder);
    fs::remove_all(folder);
  });
}

// In the folder that the command line names, or in a temporary one.
inline int run_in_folder(int argc, char** argv, const std::string& name,
                         const std::function<void(const std::filesystem::path&)>& example) {
  if (argc > 1) return run(name, [&] { example(argv[1]); });
  return run_in_temporary_folder(name, example);
}

// On the database file that the command line names, or on one in a temporary folder.
inline int run_on_file(int argc, char** argv, const std::string& name,
                       const std::function<void(const std::string& file)>& example) {
  if (argc > 1) return run(name, [&] { example(argv[1]); });
  return run_in_temporary_folder(
      name, [&](const std::filesystem::path& folder) { example((folder / "shop.db").string()); });
}

// One string a line, because several workers print side by side.
inline void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

inline void expect(bool condition, const std::string& otherwise) {
  if (!condition) throw std::runtime_error(otherwise);
}

}  // namespace example
