// What a simulated process sees of the server: calls that take time, fail, and lose their answers.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "outbox/store.h"

namespace outbox::simulation {

// What may happen around a call. Its functions run on the caller's thread, and may wait.
class Network {
 public:
  virtual ~Network() = default;

  // Before the server hears of the call. Throws RetryableError if it never does.
  virtual void request(std::string_view call) = 0;

  // Whether there is still somebody to be told of commits.
  virtual bool alive() const = 0;

  // The server has done it. True if the answer does not arrive.
  virtual bool loses_answer(std::string_view call) = 0;
};

// What the server did, in the order in which it did it; called while it does.
class ServerLog {
 public:
  virtual ~ServerLog() = default;

  // A transaction has inserted these, will be or may have been committed, was committed.
  virtual void inserted(const void* transaction, std::span<const Event> events) = 0;
  virtual void committing(const void* transaction) = 0;
  virtual void committed(const void* transaction) = 0;
  virtual void rolled_back(const void* transaction) = 0;

  // An instance has read or marked rows.
  virtual void read(std::string_view call, std::span<const Row> rows) = 0;
  virtual void marked(std::int64_t epoch, std::span<const Mark> marks,
                      const MarkResult& result) = 0;
};

// A store whose calls go to `server` through the network, with the clock of the process.
std::shared_ptr<Store> client_store(std::shared_ptr<Store> server, std::shared_ptr<Network> network,
                                    std::shared_ptr<ServerLog> log, const Clock& clock);

// The process that used this store was killed: the server ends its connections.
void end_connections(Store& client);

}  // namespace outbox::simulation
