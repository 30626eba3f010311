// What is around the processes of a run on a server: that, and a network.
#pragma once

#include <string>

#include "settings.h"
#include "support/tcp_proxy.h"

namespace outbox::chaos {

// A server of scripts/services that is the run's alone: empty at first, gone at
// the end. What an earlier run left behind is cleared away. Not thread-safe.
class Server {
 public:
  // Throws std::runtime_error if the script fails; it says why.
  explicit Server(const Settings& settings);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& url() const { return url_; }

  // As when its host loses its power, but for the disk's caches.
  void kill() { run("kill"); }

  // Waits until it has recovered.
  void start() { run("start"); }

 private:
  void run(const char* command, const char* option = nullptr) const;

  const StoreKind store_;
  std::string url_;
};

// The processes reach the server by a network that fails. Not thread-safe.
class Surroundings {
 public:
  explicit Surroundings(const Settings& settings);

  std::string direct_url() const { return server_.url(); }
  std::string url() const;

  Server& server() { return server_; }
  test::TcpProxy& network() { return network_; }

  // Of the next COMMIT, whoever sends it.
  void drop_reply_of_commit();

 private:
  const StoreKind store_;
  Server server_;
  test::TcpProxy network_;
};

}  // namespace outbox::chaos
