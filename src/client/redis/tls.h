// TLS over a socket, by OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "client/redis/socket.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX
struct ssl_st;      // OpenSSL's SSL

namespace outbox::redis {

// All files are PEM.
struct TlsSettings {
  std::string ca_file{};           // who may sign the server's certificate; empty: the system's
  std::string certificate_file{};  // of this client, with those between it and its CA
  std::string key_file{};
  bool verify = true;

  friend bool operator==(const TlsSettings&, const TlsSettings&) = default;
};

struct FreeTlsContext {
  void operator()(ssl_ctx_st* context) const noexcept;
};
struct FreeTlsSession {
  void operator()(ssl_st* session) const noexcept;
};

// What connections have in common. The files are read once. Thread-safe.
class TlsContext {
 public:
  // Throws MisuseError for files that cannot be used.
  explicit TlsContext(const TlsSettings& settings);

  ssl_ctx_st* get() const { return context_.get(); }

 private:
  std::unique_ptr<ssl_ctx_st, FreeTlsContext> context_;
};

// As Socket, encrypted. Used by one thread at a time.
class TlsStream {
 public:
  // Shakes hands with the server, whose certificate must be for the host. The socket must
  // outlive the stream. Throws StreamError.
  TlsStream(Socket& socket, const TlsContext& context, const std::string& host, Deadline deadline);

  void send(std::string_view bytes, Deadline deadline);
  std::size_t receive(std::span<char> buffer, Deadline deadline);

 private:
  void expect(const std::string& host);
  void shake_hands(const std::string& host, Deadline deadline);
  void throw_if_refused(Deadline deadline);
  // What OpenSSL has produced goes to the server; what the server has sent, to OpenSSL:
  // false if it has closed the connection.
  void pass_on(Deadline deadline);
  bool fetch(Deadline deadline);

  Socket& socket_;
  std::unique_ptr<ssl_st, FreeTlsSession> session_;
};

}  // namespace outbox::redis
