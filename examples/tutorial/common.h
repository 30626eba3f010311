// What the programs of the tutorial share: a place for their databases, and a
// way to fail loudly.
#pragma once

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "outbox/outbox.h"

namespace tutorial {

using namespace std::chrono_literals;

// A folder that is gone at the end.
class Scratch {
 public:
  Scratch()
      : folder_(std::filesystem::temp_directory_path() / ("outbox-tutorial-" + outbox::new_id())) {
    std::filesystem::create_directory(folder_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

 private:
  const std::filesystem::path folder_;
};

inline void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("not so: " + what);
}

// For conditions that nobody announces.
inline void expect_soon(const std::function<bool()>& condition, const std::string& what) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    expect(std::chrono::steady_clock::now() < deadline, what);
    std::this_thread::sleep_for(1ms);
  }
}

inline void expect_idle(outbox::Outbox& box) {
  expect(box.wait_idle(20s), "every event was delivered in time");
}

// [order-placed]
inline outbox::Draft order_placed(const std::string& order) {
  return {.type = "OrderPlaced",
          .aggregate_type = "Order",
          .aggregate_id = order,
          .payload = outbox::json(R"({"cents":1999})")};
}
// [/order-placed]

inline void write(outbox::Outbox& box, outbox::Draft draft) {
  auto tx = box.begin();
  tx.write(std::move(draft));
  tx.commit();
}

// What main() does: each part gets a folder of its own.
template <class... Parts>
int run(Parts... parts) {
  try {
    const auto in_scratch = [](auto part) {
      const Scratch scratch;
      part(scratch);
    };
    (in_scratch(parts), ...);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "tutorial: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}

}  // namespace tutorial
