// For stores whose database is at the other end of a network.
#pragma once

#include <memory>
#include <string>

#include "outbox/testing.h"
#include "store_conformance.h"
#include "support/tcp_proxy.h"

namespace outbox::conformance {

// How the tests get between a store and its server, and at the server itself. What they open
// makes no connections but those that are asked for, and no encrypted ones: a proxy reads them.
class Remote {
 public:
  virtual ~Remote() = default;

  virtual int port() const = 0;

  // The store, its server taken to be at another port of the same host; `marked`: with an option
  // on_open that changes the session.
  virtual std::shared_ptr<Store> open_at(int port, Logger log, bool marked) = 0;
  virtual bool is_marked(Connection& connection) = 0;

  // How many events there are, once nobody writes any more.
  virtual std::int64_t rows() = 0;

  // Which session of the server the connection is; to end one, as an administrator does; and all
  // of this store's, if there is a way to tell them.
  virtual std::string session_of(Connection& connection) = 0;
  virtual void end_session(const std::string& session) = 0;
  virtual bool end_all_sessions() { return false; }

  // What marks the end of the reply to a COMMIT; empty: the first thing that comes.
  virtual std::string reply_to_commit() const { return {}; }

  // Whether the engine, too, sends COMMIT in words of its own.
  virtual bool engine_commits() const = 0;
};

class NetworkTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_NE(backend().remote(), nullptr);
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", remote().port());
  }

  Remote& remote() { return *backend().remote(); }
  test::TcpProxy& proxy() { return *proxy_; }

  // Through the proxy.
  std::shared_ptr<Store> open_far() { return open_at(proxy().port()); }
  std::shared_ptr<Store> open_at(int port, bool marked = false) {
    return remote().open_at(port, log_.log(), marked);
  }

  testing::RecordingLog log_;

 private:
  std::unique_ptr<test::TcpProxy> proxy_;
};

// What a COMMIT brings, for stores that can send more with it.
class NetworkCommitTest : public NetworkTest {};

}  // namespace outbox::conformance
