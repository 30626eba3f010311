// What a simulated process sees of the server: calls that take time, fail, and lose their answers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "outbox/error.h"
#include "outbox/spi/store.h"
#include "simulation/cluster.h"

namespace outbox::simulation {

// The server has rolled the transaction back, and the connection is as good as before.
class Deadlocked final : public RetryableError {
 public:
  using RetryableError::RetryableError;
};

// What may happen around a call. Its functions run on the caller's thread, and may wait.
class Network {
 public:
  virtual ~Network() = default;

  // Before the server hears of the call. Throws RetryableError if it never does; Deadlocked if it
  // does, and lets another one go first.
  virtual void request(std::string_view call) = 0;

  // Whether there is still somebody to be told of commits.
  virtual bool alive() const = 0;

  // The server has done it, and the answer is on its way. True if it does not arrive.
  virtual bool loses_answer(std::string_view call) = 0;

  // The lease of the process was renewed at the server.
  virtual void renewed() = 0;
};

// What the server did, in the order in which it did it; called while it does.
class ServerLog {
 public:
  virtual ~ServerLog() = default;

  // A transaction has inserted these, having begun to after `begun`; will be or may have been
  // committed; was committed.
  virtual std::uint64_t now() const = 0;
  virtual void inserted(const void* transaction, std::span<const Event> events,
                        std::uint64_t begun) = 0;
  virtual void committing(const void* transaction, int history) = 0;
  virtual void committed(const void* transaction, int history) = 0;
  virtual void rolled_back(const void* transaction) = 0;
  virtual void savepoint(const void* transaction, const std::string& name) = 0;
  virtual void rolled_back_to(const void* transaction, const std::string& name) = 0;

  // An instance has renewed its lease, under this epoch.
  virtual void renewed(std::int64_t epoch, memory::MemberId member) = 0;

  // An instance has read or updated rows.
  virtual void read(std::string_view call, std::span<const Row> rows) = 0;
  virtual void updated(int history, std::int64_t epoch, std::span<const StatusUpdate> updates,
                       const UpdateResult& result) = 0;
};

// A store whose calls go to the cluster through the network, with the clock of the process.
std::shared_ptr<Store> client_store(std::shared_ptr<Cluster> cluster,
                                    std::shared_ptr<Network> network,
                                    std::shared_ptr<ServerLog> log, const Clock& clock);

// The process that used this store was killed: the server ends its connections.
void end_connections(Store& client);

}  // namespace outbox::simulation
