// For stores whose database is at the other end of a network.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "database.h"
#include "support/services.h"
#include "support/tcp_proxy.h"

namespace outbox::conformance {

// A URL with a password in it, and what its error advises.
struct SecretUrl {
  std::string url;
  Advice advice;
};

// The roles of docs/databases.md on the database, each with a login. Gone at the end.
class Roles {
 public:
  virtual ~Roles() = default;
  virtual std::string url_as(const std::string& role) const = 0;
  virtual std::string name(const std::string& role) const = 0;
  virtual void revoke_everything(const std::string& role) = 0;
};
inline constexpr const char* kRoles[] = {"writer", "dispatcher", "janitor", "consumer"};

// A statement, and who may run it: the letters are the first ones of the roles. `E` stands for
// the table of events.
struct Permission {
  std::string statement;
  std::string roles;
};

// How the tests get between a store and its server, and at the server itself. What they open
// makes no connections but those that are asked for, and no encrypted ones: a proxy reads them.
class Remote : public Database {
 public:
  int port() const { return test::port_of(url()); }

  // The server taken to be at another port of the same host.
  virtual std::string url_at(int port) const { return test::with_port(url(), port); }

  virtual bool is_tagged(Connection& connection) = 0;

  // How many events there are, once nobody writes any more.
  virtual std::int64_t rows() = 0;

  // Which session of the server the connection is; to end one, as an administrator does; and all
  // of this store's, if there is a way to tell them.
  virtual std::string session_of(Connection& connection) = 0;
  virtual void end_session(const std::string& session) = 0;
  virtual bool end_all_sessions() { return false; }

  // Whether so many wait for locks in the database.
  virtual bool are_waiting(int number) = 0;

  // What ends the reply to a COMMIT; empty: the first thing that comes.
  virtual std::string reply_to_commit() const { return {}; }

  // Whether the engine, too, sends COMMIT in words of its own.
  virtual bool engine_commits() const = 0;

  // What a call that is given up says besides; empty: nothing else.
  virtual std::string given_up() const { return {}; }

  // The shortest lease whose renewal has its time-outs within it.
  virtual std::chrono::seconds short_lease() const = 0;

  // URLs that cannot be opened.
  virtual std::vector<SecretUrl> urls_with(const std::string& secret) const = 0;

  virtual std::unique_ptr<Roles> make_roles() = 0;
  virtual bool is_denial(const std::string& error) const = 0;
  virtual std::vector<Permission> own_permissions() const = 0;
};

// `script` is the first line of the block of SQL in docs/databases.md.
std::string documented_grants(const std::string& script);

class RemoteTest : public DatabaseTest {
 protected:
  Remote& remote() { return *backend().remote(); }
};

class NetworkTest : public RemoteTest {
 protected:
  void SetUp() override {
    RemoteTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", remote().port());
  }

  test::TcpProxy& proxy() { return *proxy_; }

  // Through the proxy.
  std::shared_ptr<Store> open_far(Opening how = {}) {
    return open_at(remote().url_at(proxy().port()), std::move(how));
  }

 private:
  std::unique_ptr<test::TcpProxy> proxy_;
};

// What a COMMIT brings, for stores that can send more with it.
class NetworkCommitTest : public NetworkTest {};

// A server that says nothing any more, by a proxy that passes nothing on.
class FrozenTest : public NetworkTest {
 protected:
  std::shared_ptr<Store> open_impatient() { return open_far({.statement_timeout = 2s}); }
};
class FrozenCommitTest : public FrozenTest {};

class TakeOverTest : public RemoteTest {};
class ServersClockTest : public RemoteTest {};
class LateCommitTest : public RemoteTest {};
class PrivilegesTest : public RemoteTest {
 protected:
  void SetUp() override;

  std::shared_ptr<Store> store_as(const std::string& role,
                                  Opening how = {.migrate = false, .connections = 4}) {
    return open_at(roles_->url_as(role), std::move(how));
  }

  std::shared_ptr<Store> owners_;
  std::unique_ptr<Roles> roles_;
};
class SecretsTest : public RemoteTest {
 protected:
  static constexpr const char* kSecret = "tOpSeCrEt";
};

}  // namespace outbox::conformance

// Besides OUTBOX_DATABASE_CONFORMANCE, on a store with a Remote.
#define OUTBOX_SERVER_CONFORMANCE(prefix, ...)                              \
  namespace outbox::conformance {                                           \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, NetworkTest, __VA_ARGS__);       \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, NetworkCommitTest, __VA_ARGS__); \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, FrozenTest, __VA_ARGS__);        \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, FrozenCommitTest, __VA_ARGS__);  \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, TakeOverTest, __VA_ARGS__);      \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, ServersClockTest, __VA_ARGS__);  \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, LateCommitTest, __VA_ARGS__);    \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, PrivilegesTest, __VA_ARGS__);    \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, SecretsTest, __VA_ARGS__);       \
  }                                                                         \
  static_assert(true, "so that a semicolon may follow")
