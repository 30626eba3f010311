// The suite on the memory store.
#include <algorithm>

#include "outbox/memory.h"
#include "store_conformance.h"

namespace outbox::conformance {
namespace {

class MemoryBackend final : public Backend {
 public:
  explicit MemoryBackend(int shards, bool concurrent_transactions = false)
      : shards_(shards), concurrent_(concurrent_transactions) {}

  std::shared_ptr<Store> open(const Wishes& wishes) override {
    return memory::open({
        .on_done = wishes.remove_done ? memory::OnDone::remove : memory::OnDone::keep,
        .shards = shards_,
        .concurrent_transactions = concurrent_,
        .connections = wishes.connections,
        .wait_timeout = wishes.wait_timeout,
        .clock = &clock_,
    });
  }

  void advance(std::chrono::microseconds by) override { clock_.advance(by); }

  std::vector<std::string> archived(Store& store) override {
    std::vector<std::string> rows;
    for (const EventRecord& record : memory::archived(store)) {
      rows.push_back(record.row.event.id() + "=" + record.row.event.payload());
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }

 private:
  testing::ManualClock clock_;
  const int shards_;
  const bool concurrent_;
};

}  // namespace
}  // namespace outbox::conformance

OUTBOX_STORE_CONFORMANCE(Memory, factory<MemoryBackend>("OneShard", 1),
                         factory<MemoryBackend>("ThreeShards", 3),
                         factory<MemoryBackend>("SixteenShards", 16),
                         factory<MemoryBackend>("Concurrent", 4, true));
