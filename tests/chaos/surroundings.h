// What is around the processes of a run on a server: that, and a network.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "settings.h"
#include "support/tcp_proxy.h"

namespace outbox::chaos {

// Something that the servers need could not be fetched: there is nothing to try here.
class NotFetched : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The servers of scripts/services that are the run's alone: empty at first, gone at the
// end. What an earlier run left behind is cleared away. Which of them is the primary is
// known here, because all that changes it is done here; of Patroni's it is asked. Not
// thread-safe.
class Server {
 public:
  // Throws NotFetched, and std::runtime_error if the script fails otherwise; it says why. So
  // do the others.
  explicit Server(const Settings& settings);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Names all of them.
  const std::string& url() const { return url_; }

  // As when the primary's host loses its power, but for the disk's caches. In a cluster, the
  // server that is named first.
  void kill();

  // Has the one that was killed go on with its data; waits until it has recovered.
  void start();

  // All of the primary's processes stop, and go on.
  void freeze();
  void thaw();

  // Another one becomes the primary, whatever the former one does.
  void promote();

  // The former primary loses its data, and follows the new one.
  void follow();

  // The standby, or the server of a cluster that is named first, is cut off from the others.
  void isolate();
  void rejoin();

 private:
  void start_all();
  void stop_all();
  bool is_patroni() const;
  std::size_t leader() const;
  void wait_until_leads(std::size_t server) const;
  bool leads(std::size_t server) const;
  void run(const std::string& command, const std::vector<std::string>& arguments) const;

  const Settings settings_;
  const std::vector<std::string> names_;  // as scripts/services calls them
  std::vector<std::string> urls_;         // of each
  std::string url_;
  std::size_t primary_ = 0;
  std::size_t former_ = 0;
};

// The processes reach the server by a network that fails; several servers as they are. Not
// thread-safe.
class Surroundings {
 public:
  explicit Surroundings(const Settings& settings);

  std::string direct_url() const { return server_.url(); }
  std::string url() const;

  Server& server() { return server_; }
  test::TcpProxy& network() { return network_; }  // if there are several, nobody uses it

 private:
  const bool direct_;
  Server server_;
  test::TcpProxy network_;
};

}  // namespace outbox::chaos
