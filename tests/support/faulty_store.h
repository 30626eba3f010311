// A store that fails, waits or lies when a test wants it to.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "outbox/spi/store.h"

namespace outbox::testing {

// What happens around the calls of a FaultyStore. The hooks get the name of
// the call ("ready", "update", "commit", ...), run on the caller's thread with no
// lock held, and may throw or wait. Thread-safe.
class Faults {
 public:
  using Hook = std::function<void(std::string_view call)>;

  // Instead of the call, if it throws.
  void before(Hook hook);

  // After the call has had its effect; throwing loses the answer.
  void after(Hook hook);

  // Answers update() in the place of the store, unless it returns nothing; may throw.
  using UpdateHook =
      std::function<std::optional<UpdateResult>(std::span<const StatusUpdate> updates)>;
  void on_update(UpdateHook hook);

  void clear();

  // What the store says that it can do, instead of what it can.
  void claim(const Capabilities& capabilities);

  // How often a call was made, the failed ones included.
  std::size_t calls(std::string_view call) const;

  // Bytes of payload that reads of instances have returned: all together, and the most by
  // one of them.
  std::size_t bytes_read() const;
  std::size_t largest_read() const;

  void begin(std::string_view call);
  void end(std::string_view call);
  std::optional<UpdateResult> updating(std::span<const StatusUpdate> updates);
  void read(const std::vector<Row>& rows);
  std::optional<Capabilities> claimed() const;

 private:
  mutable std::mutex mutex_;
  Hook before_;
  Hook after_;
  UpdateHook on_update_;
  std::optional<Capabilities> claimed_;
  std::vector<std::pair<std::string_view, std::size_t>> calls_;
  std::size_t bytes_read_ = 0;
  std::size_t largest_read_ = 0;
};

// Throws RetryableError for every call that is one of these.
Faults::Hook failing(std::vector<std::string_view> calls);

// Wraps a store and everything that it hands out.
std::shared_ptr<Store> faulty(std::shared_ptr<Store> store, std::shared_ptr<Faults> faults);

}  // namespace outbox::testing
