#include "simulation/client_store.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "outbox/error.h"
#include "simulation/scheduler.h"

namespace outbox::simulation {
namespace {

class ClientConnection;

struct Server {
  std::shared_ptr<Cluster> cluster;
  std::shared_ptr<Network> network;
  std::shared_ptr<ServerLog> log;
  std::shared_ptr<std::set<ClientConnection*>> connections =
      std::make_shared<std::set<ClientConnection*>>();
};

template <class Call>
auto serve(Call call) {
  const Scheduler::ServerCall in_server;
  return call();
}

[[noreturn]] void lost(std::string_view call) {
  throw RetryableError("the answer to " + std::string(call) + " was lost");
}

// Asks the primary, which answers unless the network is against it.
template <class Call>
auto ask(const Server& server, std::string_view name, Call call) {
  server.network->request(name);
  const std::shared_ptr<Node> primary = server.cluster->primary();
  if constexpr (std::is_void_v<decltype(call(*primary))>) {
    serve([&] { call(*primary); });
    if (server.network->loses_answer(name)) lost(name);
  } else {
    auto answer = serve([&] { return call(*primary); });
    if (server.network->loses_answer(name)) lost(name);
    return answer;
  }
}

// The same for what changes nothing on the server: to lose the answer would be to lose the
// question.
template <class Call>
auto look(const Server& server, std::string_view name, Call call) {
  server.network->request(name);
  const std::shared_ptr<Node> primary = server.cluster->primary();
  return serve([&] { return call(*primary->store); });
}

class ClientConnection final : public Connection {
 public:
  ClientConnection(Server server, std::shared_ptr<Node> node)
      : server_(std::move(server)), node_(std::move(node)), to_(node_->store->connect()) {
    server_.connections->insert(this);
  }

  ~ClientConnection() override {
    serve([&] { end(); });
  }
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  // On the server's side.
  void end() {
    server_.connections->erase(this);
    if (to_->in_transaction()) server_.log->rolled_back(this);
    to_.reset();
  }

  void begin() override {
    on_connection("begin", [&] { to_->begin(); });
  }

  void commit() override {
    check();
    request("commit");
    serve([&] {
      server_.log->committing(this, node_->history);
      to_->commit();
      server_.log->committed(this, node_->history);
    });
    if (!server_.network->loses_answer("commit")) return;
    broken_ = true;
    throw OutcomeUnknownError("the answer to commit was lost");
  }

  void rollback() override {
    if (broken_ || std::exchange(aborted_, false)) return;
    on_connection("rollback", [&] {
      to_->rollback();
      server_.log->rolled_back(this);
    });
  }

  bool in_transaction() const override { return !broken_ && (aborted_ || to_->in_transaction()); }

  void savepoint(const std::string& name) override {
    on_connection("savepoint", [&] {
      to_->savepoint(name);
      server_.log->savepoint(this, name);
    });
  }
  void release(const std::string& name) override {
    on_connection("release", [&] { to_->release(name); });
  }
  void rollback_to(const std::string& name) override {
    on_connection("rollback_to", [&] {
      to_->rollback_to(name);
      server_.log->rolled_back_to(this, name);
    });
  }
  std::int64_t execute(std::string_view sql, std::span<const Parameter> values) override {
    return to_->execute(sql, values);
  }
  std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) override {
    return to_->query(sql, values);
  }

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    return on_connection("insert", [&] {
      const std::uint64_t begun = server_.log->now();
      std::vector<RowRef> rows = to_->insert(events, options);
      server_.log->inserted(this, events, begun);
      return rows;
    });
  }

 private:
  void check() const {
    if (broken_) throw RetryableError("the connection is lost");
    if (aborted_) throw RetryableError("the transaction was rolled back");
  }

  // On the server's side. False if there is nothing to roll back.
  bool abort() {
    return serve([&] {
      if (!to_->in_transaction()) return false;
      to_->rollback();
      server_.log->rolled_back(this);
      return true;
    });
  }

  // A connection that failed is of no use any more.
  void give_up() {
    broken_ = true;
    abort();
  }

  void request(std::string_view call) {
    try {
      server_.network->request(call);
      if (!server_.cluster->answers(*node_)) throw RetryableError("the old primary has ended");
    } catch (const Deadlocked&) {
      aborted_ = abort();
      throw;
    } catch (...) {
      give_up();
      throw;
    }
  }

  template <class Call>
  std::invoke_result_t<Call&> on_connection(std::string_view name, Call call) {
    check();
    request(name);
    const auto hear = [&] {
      if (!server_.network->loses_answer(name)) return;
      give_up();
      lost(name);
    };
    if constexpr (std::is_void_v<decltype(call())>) {
      serve(call);
      hear();
    } else {
      auto answer = serve(call);
      hear();
      return answer;
    }
  }

  const Server server_;
  const std::shared_ptr<Node> node_;
  std::unique_ptr<Connection> to_;
  bool broken_ = false;
  bool aborted_ = false;  // until the client rolls back as well
};

// What a database store does about failovers (docs/architecture.md, I16): an instance has a
// connection for its lease, one to read and one to update. A renewal that finds another history
// ends the registration and makes a new one there. Connections that are older than that are not
// used any more, nor those to another server than the registration's.
class ClientInstance final : public WholeInstance {
 public:
  ClientInstance(Server server, InstanceOptions options)
      : server_(std::move(server)), options_(std::move(options)) {
    const std::shared_ptr<Node>& node = server_.cluster->primary();
    registered_ = node->history;
    {
      MutexLock lock(node->database->mutex);
      member_ = node->database->members.new_id();
    }
    instances_[node->history] = make_instance(*node);
  }

  Lease renew() override {
    return change(leasing_, "renew", [&](Node& node) {
      std::shared_ptr<Instance> instance = on_node(node);
      if (node.history != registered_) {
        instance->leave();
        instance = instances_[node.history] = make_instance(node);
        registered_ = node.history;
        reading_.reset();
        updating_.reset();
      }
      Lease lease = instance->renew();
      epoch_ = lease.epoch;
      server_.log->renewed(lease.epoch, member_);
      server_.network->renewed();
      return lease;
    });
  }
  std::int64_t epoch() const override { return epoch_; }
  std::optional<std::chrono::milliseconds> lease_duration() const override {
    return instances_.begin()->second->lease_duration();
  }
  void release(int shard) override {
    change(leasing_, "release", [&](Node& node) { on_node(node)->release(shard); });
  }
  void leave() override {
    change(leasing_, "leave", [&](Node& node) { on_node(node)->leave(); });
  }
  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override {
    return read("ready", [&](Instance& to) { return to.ready(shards, in_flight, limit); });
  }
  void rewind(Seq seq) override {
    serve([&] {
      const auto instances = instances_;
      for (const auto& [history, instance] : instances) instance->rewind(seq);
    });
  }
  DueRows due(std::span<const int> shards, const ReadLimit& limit) override {
    return read("due", [&](Instance& to) { return to.due(shards, limit); });
  }
  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) override {
    return read("held", [&](Instance& to) { return to.held(lanes, limit); });
  }
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) override {
    return look("held_lanes", [&](Instance& to) { return to.held_lanes(shard, after, limit); });
  }
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override {
    return look("unblocked", [&](Instance& to) { return to.unblocked(shards, limit); });
  }
  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) override {
    return change(reading_, "claim", [&](Node& node) {
      Rows rows = on_node(node)->claim(skip_recent, limit);
      server_.log->read("claim", rows.rows);
      return rows;
    });
  }
  void unclaim(std::span<const RowRef> rows) override {
    change(reading_, "unclaim", [&](Node& node) { on_node(node)->unclaim(rows); });
  }
  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) override {
    return change(updating_, "update", [&](Node& node) {
      MutexLock lock(node.telling);
      UpdateResult result = on_node(node)->apply(epoch, updates);
      server_.log->updated(node.history, epoch, updates, result);
      return result;
    });
  }
  const std::string& owner() const override { return instances_.begin()->second->owner(); }

 private:
  using Link = std::shared_ptr<Node>;  // null: not connected

  std::unique_ptr<Instance> make_instance(const Node& node) const {
    return memory::make_instance(node.database, member_, options_);
  }

  // The same registration, as that server knows it. Its user keeps it: the keeper may make
  // another one meanwhile.
  std::shared_ptr<Instance> on_node(const Node& node) {
    std::shared_ptr<Instance>& instance = instances_[node.history];
    if (!instance) instance = make_instance(node);
    return instance;
  }

  // The server that the connection leads to.
  std::shared_ptr<Node> reach(Link& link, std::string_view name) {
    try {
      server_.network->request(name);
      if (!link) link = server_.cluster->primary();
      if (!server_.cluster->answers(*link)) throw RetryableError("the old primary has ended");
      if (&link != &leasing_ && link->history != registered_) {
        throw RetryableError("not the server that this instance is registered on");
      }
      return link;
    } catch (...) {
      link.reset();
      throw;
    }
  }

  template <class Call>
  std::invoke_result_t<Call&, Node&> change(Link& link, std::string_view name, Call call) {
    const std::shared_ptr<Node> node = reach(link, name);
    const auto hear = [&] {
      if (!server_.network->loses_answer(name)) return;
      link.reset();
      lost(name);
    };
    if constexpr (std::is_void_v<decltype(call(*node))>) {
      serve([&] { call(*node); });
      hear();
    } else {
      auto answer = serve([&] { return call(*node); });
      hear();
      return answer;
    }
  }

  // Answers are not lost: how far it has read, a database store would know by itself.
  template <class Call>
  std::invoke_result_t<Call&, Instance&> look(std::string_view name, Call call) {
    const std::shared_ptr<Node> node = reach(reading_, name);
    return serve([&] {
      const std::shared_ptr<Instance> instance = on_node(*node);
      return call(*instance);
    });
  }

  template <class Call>
  std::invoke_result_t<Call&, Instance&> read(std::string_view name, Call call) {
    return look(name, [&](Instance& instance) {
      auto found = call(instance);
      server_.log->read(name, found.rows);
      return found;
    });
  }

  const Server server_;
  const InstanceOptions options_;
  memory::MemberId member_ = 0;
  std::int64_t epoch_ = 0;
  int registered_ = 0;                                  // the history
  std::map<int, std::shared_ptr<Instance>> instances_;  // by history
  Link leasing_;
  Link reading_;
  Link updating_;
};

class ClientStore final : public Store {
 public:
  ClientStore(Server server, const Clock& clock) : server_(std::move(server)), clock_(clock) {}

  std::string description() const override { return server_.cluster->store().description(); }
  Capabilities capabilities() const override { return server_.cluster->store().capabilities(); }
  const Clock& clock() const override { return clock_; }
  std::string side_table(std::string_view name) const override {
    return server_.cluster->store().side_table(name);
  }
  std::unique_ptr<Connection> connect() override {
    return ask(server_, "connect", [&](Node& primary) -> std::unique_ptr<Connection> {
      return std::make_unique<ClientConnection>(server_, primary.shared_from_this());
    });
  }
  std::unique_ptr<Instance> join(InstanceOptions options) override {
    return serve([&] { return std::make_unique<ClientInstance>(server_, std::move(options)); });
  }
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override {
    // The server's own thread: nobody who commits must wait for a client that was killed.
    return Scheduler::here()->in_process(0, [&] {
      return server_.cluster->watch([network = server_.network, call = std::move(on_commit)] {
        if (network->alive()) call();
      });
    });
  }
  bool has_pending() override {
    return look(server_, "has_pending", [&](Store& store) { return store.has_pending(); });
  }
  Counts counts() override {
    return look(server_, "counts", [&](Store& store) { return store.counts(); });
  }
  Admin& admin() override { return admin_; }

  void end_connections() {
    while (!server_.connections->empty()) (*server_.connections->begin())->end();
  }

 private:
  const Server server_;
  const Clock& clock_;
  Admin admin_;  // refuses all: operators ask the server itself; see world.cc
};

}  // namespace

std::shared_ptr<Store> client_store(std::shared_ptr<Cluster> cluster,
                                    std::shared_ptr<Network> network,
                                    std::shared_ptr<ServerLog> log, const Clock& clock) {
  return std::make_shared<ClientStore>(
      Server{std::move(cluster), std::move(network), std::move(log)}, clock);
}

void end_connections(Store& client) { dynamic_cast<ClientStore&>(client).end_connections(); }

}  // namespace outbox::simulation
