#include "simulation/cluster.h"

#include <utility>
#include <vector>

namespace outbox::simulation {
namespace {

std::shared_ptr<Node> make_node(int history, std::shared_ptr<memory::Database> database) {
  auto node = std::make_shared<Node>();
  node->history = history;
  node->store = memory::make_store(database);
  node->database = std::move(database);
  return node;
}

}  // namespace

class Cluster::ClusterWatch final : public Watch {
 public:
  ClusterWatch(std::shared_ptr<std::set<ClusterWatch*>> all, std::function<void()> call,
               Store& primary)
      : all_(std::move(all)), call_(std::move(call)) {
    move_to(primary);
    all_->insert(this);
  }
  ~ClusterWatch() override { all_->erase(this); }
  ClusterWatch(const ClusterWatch&) = delete;
  ClusterWatch& operator=(const ClusterWatch&) = delete;

  void move_to(Store& primary) { watches_.push_back(primary.watch(call_)); }

 private:
  const std::shared_ptr<std::set<ClusterWatch*>> all_;
  const std::function<void()> call_;
  std::vector<std::unique_ptr<Watch>> watches_;  // to end one is to wait for what it calls
};

Cluster::Cluster(const memory::Options& options)
    : primary_(make_node(0, std::make_shared<memory::Database>(options))) {}

bool Cluster::answers(const Node& node) const {
  return &node == primary_.get() || Scheduler::here()->now() < old_primary_ends_;
}

void Cluster::stop_replication() {
  memory::Database& now = *primary_->database;
  MutexLock lock(now.mutex);
  standby_ = make_node(primary_->history + 1, std::make_shared<memory::Database>(now));
}

void Cluster::promote(Instant old_primary_ends) {
  if (!standby_) stop_replication();
  {
    MutexLock lock(standby_->database->mutex);
    standby_->database->members.begin_new_history();
  }
  primary_ = std::exchange(standby_, nullptr);
  old_primary_ends_ = old_primary_ends;
  const std::set<ClusterWatch*> watches = *watches_;
  for (ClusterWatch* const watch : watches) watch->move_to(*primary_->store);
  primary_->database->watchers->notify();
}

std::unique_ptr<Watch> Cluster::watch(std::function<void()> on_commit) {
  return std::make_unique<ClusterWatch>(watches_, std::move(on_commit), *primary_->store);
}

}  // namespace outbox::simulation
