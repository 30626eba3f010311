// What all connections of the user's own refuse.
#pragma once

#include <memory>
#include <string>

#include "outbox/adapter/executor.h"
#include "outbox/error.h"
#include "outbox/spi/store.h"

namespace outbox {

// A connection whose transaction is its owner's.
class ExternalConnection : public Connection {
 public:
  void begin() final { refuse("begin"); }
  void commit() final { refuse("commit"); }
  void rollback() final { refuse("rollback"); }
  void savepoint(const std::string& /*name*/) final { refuse("savepoint"); }
  void release(const std::string& /*name*/) final { refuse("release"); }
  void rollback_to(const std::string& /*name*/) final { refuse("rollback_to"); }

 private:
  [[noreturn]] static void refuse(const char* call) {
    throw MisuseError(std::string(call) +
                      "() on an external connection: the transaction is its owner's; begin and end "
                      "it with the client library that the connection belongs to");
  }
};

// What wrap(executor, store) makes.
std::unique_ptr<Connection> executor_connection(std::shared_ptr<const ExecutorDialect> dialect,
                                                Executor executor);

}  // namespace outbox
