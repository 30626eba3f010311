// A network that fails on demand.
#pragma once

#include <memory>
#include <string>

namespace outbox::test {

// Listens on a port of the loopback, passes on what it gets, and breaks
// connections as networks do. A call has taken effect when it returns.
// Thread-safe; has one thread of its own.
class TcpProxy {
 public:
  // The address is a numeric one; it need not have a listener yet. Throws
  // std::runtime_error if it is none, std::system_error if it cannot listen itself.
  TcpProxy(const std::string& target_address, int target_port);
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

  // The next time that a client sends the text: what comes behind it does not arrive, nor
  // does any answer, and nobody is told: the connection stays open at both ends. Once, for
  // one connection; the others go on.
  void hold_request(const std::string& text);

  // How many requests are held now.
  int held() const;

  // The next time that a client sends the text: it arrives, and the client gets `reply` in
  // place of what the server sends next, in one piece. Once, for one connection.
  void replace_reply(const std::string& text, const std::string& reply);

  // How many requests and replies were dropped so far.
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
