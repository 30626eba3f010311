#include "simulation/client_store.h"

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
  std::shared_ptr<Store> store;
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

// Asks the server, which answers unless the network is against it.
template <class Call>
auto ask(const Server& server, std::string_view name, Call call) {
  server.network->request(name);
  if constexpr (std::is_void_v<decltype(call())>) {
    serve(call);
    if (server.network->loses_answer(name)) lost(name);
  } else {
    auto answer = serve(call);
    if (server.network->loses_answer(name)) lost(name);
    return answer;
  }
}

// The same for what changes nothing on the server: to lose the answer would be to lose the
// question.
template <class Call>
auto look(const Server& server, std::string_view name, Call call) {
  server.network->request(name);
  return serve(call);
}

class ClientConnection final : public Connection {
 public:
  explicit ClientConnection(Server server)
      : server_(std::move(server)), to_(server_.store->connect()) {
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
      server_.log->committing(this);
      to_->commit();
      server_.log->committed(this);
    });
    if (!server_.network->loses_answer("commit")) return;
    broken_ = true;
    throw OutcomeUnknownError("the answer to commit was lost");
  }

  void rollback() override {
    if (broken_) return;
    on_connection("rollback", [&] {
      to_->rollback();
      server_.log->rolled_back(this);
    });
  }

  bool in_transaction() const override { return !broken_ && to_->in_transaction(); }

  void savepoint(const std::string& name) override {
    on_connection("savepoint", [&] { to_->savepoint(name); });
  }
  void release(const std::string& name) override {
    on_connection("release", [&] { to_->release(name); });
  }
  void rollback_to(const std::string& name) override {
    on_connection("rollback_to", [&] { to_->rollback_to(name); });
  }
  std::int64_t execute(std::string_view sql, std::span<const Value> values) override {
    return to_->execute(sql, values);
  }
  std::vector<ResultRow> query(std::string_view sql, std::span<const Value> values) override {
    return to_->query(sql, values);
  }

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    return on_connection("insert", [&] {
      std::vector<RowRef> rows = to_->insert(events, options);
      server_.log->inserted(this, events);
      return rows;
    });
  }

 private:
  void check() const {
    if (broken_) throw RetryableError("the connection is lost");
  }

  // A connection that failed is of no use any more: the server rolls back.
  void give_up() {
    broken_ = true;
    serve([&] {
      if (!to_->in_transaction()) return;
      to_->rollback();
      server_.log->rolled_back(this);
    });
  }

  void request(std::string_view call) {
    try {
      server_.network->request(call);
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
  std::unique_ptr<Connection> to_;
  bool broken_ = false;
};

class ClientInstance final : public Instance {
 public:
  ClientInstance(Server server, std::unique_ptr<Instance> to)
      : server_(std::move(server)), to_(std::move(to)) {}

  Tenure renew() override {
    return ask(server_, "renew", [&] { return to_->renew(); });
  }
  std::optional<std::chrono::milliseconds> lease() const override { return to_->lease(); }
  void release(int shard) override {
    ask(server_, "release", [&] { to_->release(shard); });
  }
  void leave() override {
    ask(server_, "leave", [&] { to_->leave(); });
  }
  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override {
    return read("ready", [&] { return to_->ready(shards, in_flight, limit); });
  }
  void rewind(Seq seq) override {
    serve([&] { to_->rewind(seq); });
  }
  DueRows due(std::span<const int> shards, const ReadLimit& limit) override {
    return read("due", [&] { return to_->due(shards, limit); });
  }
  Rows held(int shard, LaneKey key, const ReadLimit& limit) override {
    return read("held", [&] { return to_->held(shard, key, limit); });
  }
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) override {
    return look(server_, "held_lanes", [&] { return to_->held_lanes(shard, after, limit); });
  }
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override {
    return look(server_, "unblocked", [&] { return to_->unblocked(shards, limit); });
  }
  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) override {
    return ask(server_, "claim", [&] {
      Rows rows = to_->claim(skip_recent, limit);
      server_.log->read("claim", rows.rows);
      return rows;
    });
  }
  void unclaim(std::span<const RowRef> rows) override {
    ask(server_, "unclaim", [&] { to_->unclaim(rows); });
  }
  MarkResult mark(std::int64_t epoch, std::span<const Mark> marks) override {
    return ask(server_, "mark", [&] {
      MarkResult result = to_->mark(epoch, marks);
      server_.log->marked(epoch, marks, result);
      return result;
    });
  }
  const std::string& owner() const override { return to_->owner(); }

 private:
  template <class Call>
  std::invoke_result_t<Call&> read(std::string_view name, Call call) {
    return look(server_, name, [&] {
      auto found = call();
      server_.log->read(name, found.rows);
      return found;
    });
  }

  const Server server_;
  const std::unique_ptr<Instance> to_;
};

class ClientStore final : public Store {
 public:
  ClientStore(Server server, const Clock& clock) : server_(std::move(server)), clock_(clock) {}

  std::string description() const override { return server_.store->description(); }
  Capabilities capabilities() const override { return server_.store->capabilities(); }
  const Clock& clock() const override { return clock_; }
  std::string side_table(std::string_view name) const override {
    return server_.store->side_table(name);
  }
  std::unique_ptr<Connection> connect() override {
    return ask(server_, "connect", [&]() -> std::unique_ptr<Connection> {
      return std::make_unique<ClientConnection>(server_);
    });
  }
  std::unique_ptr<Instance> join(InstanceOptions options) override {
    return serve([&] {
      return std::make_unique<ClientInstance>(server_, server_.store->join(std::move(options)));
    });
  }
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override {
    // The server's own thread: nobody who commits must wait for a client that was killed.
    return Scheduler::here()->in_process(0, [&] {
      return server_.store->watch([network = server_.network, call = std::move(on_commit)] {
        if (network->alive()) call();
      });
    });
  }
  bool has_pending() override {
    return look(server_, "has_pending", [&] { return server_.store->has_pending(); });
  }
  Counts counts() override {
    return look(server_, "counts", [&] { return server_.store->counts(); });
  }
  std::optional<EventRecord> find(std::string_view event_id) override {
    return look(server_, "find", [&] { return server_.store->find(event_id); });
  }
  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit) override {
    return look(server_, "list", [&] { return server_.store->list(filter, after, limit); });
  }
  std::int64_t count(const EventFilter& filter) override {
    return look(server_, "count", [&] { return server_.store->count(filter); });
  }
  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit) override {
    return look(server_, "dead_groups", [&] { return server_.store->dead_groups(filter, limit); });
  }
  bool replay(std::string_view event_id) override {
    return ask(server_, "replay", [&] { return server_.store->replay(event_id); });
  }
  bool discard(std::string_view event_id) override {
    return ask(server_, "discard", [&] { return server_.store->discard(event_id); });
  }
  Changed replay(const EventFilter& filter, Seq after, std::size_t limit) override {
    return ask(server_, "replay", [&] { return server_.store->replay(filter, after, limit); });
  }
  Changed discard(const EventFilter& filter, Seq after, std::size_t limit) override {
    return ask(server_, "discard", [&] { return server_.store->discard(filter, after, limit); });
  }
  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) override {
    return ask(server_, "purge",
               [&] { return server_.store->purge(what, before, after, limit, archive); });
  }
  std::int64_t count_purgeable(Purgeable what, Time before) override {
    return look(server_, "count_purgeable",
                [&] { return server_.store->count_purgeable(what, before); });
  }
  std::vector<Member> members() override {
    return look(server_, "members", [&] { return server_.store->members(); });
  }
  std::vector<HeldAggregate> held_aggregates(std::size_t limit) override {
    return look(server_, "held_aggregates", [&] { return server_.store->held_aggregates(limit); });
  }

  void end_connections() {
    while (!server_.connections->empty()) (*server_.connections->begin())->end();
  }

 private:
  const Server server_;
  const Clock& clock_;
};

}  // namespace

std::shared_ptr<Store> client_store(std::shared_ptr<Store> server, std::shared_ptr<Network> network,
                                    std::shared_ptr<ServerLog> log, const Clock& clock) {
  return std::make_shared<ClientStore>(
      Server{std::move(server), std::move(network), std::move(log)}, clock);
}

void end_connections(Store& client) { dynamic_cast<ClientStore&>(client).end_connections(); }

}  // namespace outbox::simulation
