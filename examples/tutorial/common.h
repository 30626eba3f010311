// What the programs of the tutorial share: a place for their databases, and a way to fail
// loudly.
#pragma once

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "outbox/outbox.h"
#include "outbox/testing.h"

namespace tutorial {

using namespace std::chrono_literals;

using Scratch = outbox::testing::TemporaryFolder;

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
