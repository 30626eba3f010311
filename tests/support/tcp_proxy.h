// A network that fails on demand.
#pragma once

#include <memory>
#include <string>

#include "support/commit_scanner.h"

namespace outbox::test {

// Where a connection is lost around a COMMIT: it does not arrive; it arrives, and nobody
// waits for what comes of it; it was answered, and the answer does not arrive. The client
// has sent it and hears nothing in all three.
enum class CommitCut { before, during, after };

// How many connections were lost so.
struct CommitCuts {
  int before = 0;
  int during = 0;
  int after = 0;

  int all() const { return before + during + after; }
};

// Listens on a port of the loopback, passes on what it gets, and breaks
// connections as networks do. A call has taken effect when it returns.
// Thread-safe; has one thread of its own.
class TcpProxy {
 public:
  // The address is a numeric one; it need not have a listener yet. Throws
  // std::runtime_error if it is none, std::system_error if it cannot listen itself.
  // A `wire` is needed for what is said of COMMIT.
  TcpProxy(const std::string& target_address, int target_port, Wire wire = Wire::unknown);
  ~TcpProxy();  // cuts all connections
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const;

  // Resets all connections, at both ends.
  void cut();

  // New connections are refused, until they are admitted again. The port is kept.
  void refuse();
  void admit();

  // Nothing is passed on, and nobody is told, until it goes on.
  void stall();
  void resume();

  // The next time that a client sends the text: what it sent does not arrive,
  // and its connection is cut. Bytes are compared, also across packets; a
  // message that came in the same packet is lost as well. Once, for one connection.
  void drop_request(const std::string& text);

  // The next time that a client sends the text: it arrives, but what the server
  // sends from then on is lost, and the connection is cut as soon as `until` was
  // in it; empty: as soon as there was anything. Give it where the server may
  // still be answering something earlier. Once, for one connection.
  void drop_reply(const std::string& text, const std::string& until = "");

  // The next time that a client sends a COMMIT, its connection is cut there. Once, for one
  // connection.
  void cut_commit(CommitCut where);

  // All connections that were cut while they waited for the answer to a COMMIT: by
  // cut_commit(), and by cut(), which count as `during`.
  CommitCuts commit_cuts() const;

  // The next time that a client sends the text: what comes behind it does not arrive, nor
  // does any answer, and nobody is told: the connection stays open at both ends. Once, for
  // one connection; the others go on.
  void hold_request(const std::string& text);

  // How many requests are held now.
  int held() const;

  // The next time that a client sends the text: it arrives, and the client gets `reply` in
  // place of what the server sends next, in one piece. Once, for one connection.
  void replace_reply(const std::string& text, const std::string& reply);

  // How many requests and replies were dropped so far; those of a cut_commit() are among them.
  int drops() const;

  // How many are open now.
  int connections() const;

  // How many there were in all.
  int accepted() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace outbox::test
