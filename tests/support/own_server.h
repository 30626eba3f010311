// A server for one test alone, which it may stop and kill.
#pragma once

#include <string>

namespace outbox::test {

// Started by scripts/services under a name of its own, and stopped with it. Not
// thread-safe.
class OwnServer {
 public:
  // As scripts/services calls it: "postgres", "mariadb" or "redis", and further options of
  // its `start`. Throws std::runtime_error if the script fails; it says why.
  explicit OwnServer(std::string service, const std::string& options = "");
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  const std::string& url() const { return url_; }

  // In good order, or after kill -9. Waits until it is back.
  void restart(bool in_good_order);

 private:
  void run(const std::string& command, const std::string& options = "") const;

  const std::string service_;
  const std::string name_;  // the tests run side by side
  std::string url_;
};

}  // namespace outbox::test
