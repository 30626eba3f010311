// The server of a simulation, and the standby that takes its place.
#pragma once

#include <functional>
#include <memory>
#include <set>

#include "base/mutex.h"
#include "outbox/memory.h"
#include "outbox/spi/store.h"
#include "simulation/scheduler.h"
#include "store/memory/database.h"

namespace outbox::simulation {

// One server. Each has a history of its own, which begins as that of the one before it.
struct Node : std::enable_shared_from_this<Node> {
  int history = 0;
  std::shared_ptr<memory::Database> database;
  std::shared_ptr<Store> store;

  // Held while the state of events is changed and the judge told so: both happen at once.
  Mutex telling;
};

// A primary with asynchronous replication. Connections lead to one node: after a failover those to
// the old primary are answered for a while, as by one that has not noticed, and then no more.
class Cluster {
 public:
  explicit Cluster(const memory::Options& options);

  const std::shared_ptr<Node>& primary() const { return primary_; }
  Store& store() const { return *primary_->store; }
  bool answers(const Node& node) const;

  // From now on the standby gets nothing; what the primary does is lost when the standby is
  // promoted.
  void stop_replication();
  void promote(Instant old_primary_ends);

  // Calls it after each commit, on any primary; and after a failover.
  std::unique_ptr<Watch> watch(std::function<void()> on_commit);

 private:
  class ClusterWatch;

  std::shared_ptr<Node> primary_;
  std::shared_ptr<Node> standby_;  // null: it has everything
  Instant old_primary_ends_{};
  const std::shared_ptr<std::set<ClusterWatch*>> watches_ =
      std::make_shared<std::set<ClusterWatch*>>();
};

}  // namespace outbox::simulation
