// Who ought to own which shards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace outbox::mysql {

// One that lives, or is taken to.
struct Peer {
  std::int64_t epoch = 0;
  bool expired = false;  // its lease
  std::int64_t capacity = 0;
  bool exclusive = false;  // wants all shards or none
  bool claims = false;     // claims rows instead of shards
  std::string host{};
  std::int64_t pid = 0;
  std::string process{};
};

struct Shard {
  int number = 0;
  std::optional<std::int64_t> epoch{};  // of its owner
  bool draining = false;
  std::optional<std::int64_t> candidates{};
};

// What an instance changes to have its share.
struct Changes {
  std::vector<int> take{};   // free ones
  std::vector<int> leave{};  // to be drained
  std::vector<int> stay{};   // were being drained, and need not be any more

  bool empty() const { return take.empty() && leave.empty() && stay.empty(); }
};

// Shares are as even as whole shards allow, the oldest get one more; but the oldest that
// wants everything gets everything, and while the oldest of all claims rows nobody owns
// shards. `peers` are ordered by age, and have no dead among them.
std::size_t share_of(std::int64_t epoch, const std::vector<Peer>& peers);

Changes changes_for(std::int64_t epoch, std::size_t share, const std::vector<Shard>& shards);

}  // namespace outbox::mysql
