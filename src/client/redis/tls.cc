#include "client/redis/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <new>
#include <system_error>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::redis {
namespace {

using Kind = StreamError::Kind;

std::string reason_of(unsigned long error) {
  if (ERR_GET_LIB(error) == ERR_LIB_SYS) {
    return std::generic_category().message(ERR_GET_REASON(error));
  }
  const char* reason = ERR_reason_error_string(error);
  return reason == nullptr ? "error " + std::to_string(error) : reason;
}

[[noreturn]] void refuse_file(const std::string& option, const std::string& file) {
  throw MisuseError("redis::Options::tls." + option + ": " + quote(file) +
                    " cannot be used: " + reason_of(ERR_get_error()));
}

// OpenSSL would ask for the password of a key at the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return 0; }

void set_authorities(SSL_CTX* context, const TlsSettings& settings) {
  if (!settings.verify) {
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
    return;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (settings.ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_locations(context, settings.ca_file.c_str(), nullptr) != 1) {
    refuse_file("ca_file", settings.ca_file);
  }
}

void set_certificate(SSL_CTX* context, const TlsSettings& settings) {
  if (settings.certificate_file.empty() != settings.key_file.empty()) {
    throw MisuseError(
        "redis::Options::tls.certificate_file and key_file belong together: set both or neither");
  }
  if (settings.certificate_file.empty()) return;
  const char* certificate = settings.certificate_file.c_str();
  if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1) {
    refuse_file("certificate_file", settings.certificate_file);
  }
  // Checks that the key is that of the certificate, too.
  SSL_CTX_set_default_passwd_cb(context, no_password);
  if (SSL_CTX_use_PrivateKey_file(context, settings.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    refuse_file("key_file", settings.key_file);
  }
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> binary{};
  return inet_pton(AF_INET, host.c_str(), binary.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), binary.data()) == 1;
}

StreamError certificate_error(long result, const std::string& host) {
  std::string hint;
  switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      hint = "it is not for " + quote(host) + ": use a name in the URL that it is issued for";
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      hint = "give the server a new one";
      break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      hint = "compare the clocks of this host and the server's";
      break;
    default:
      hint = "set redis::Options::tls.ca_file to the certificate of the authority that signed it";
  }
  return {Kind::refused, std::string("the server's certificate is not accepted: ") +
                             X509_verify_cert_error_string(result) + "; " + hint};
}

// What SSL_get_error() called SSL_ERROR_SSL means.
StreamError tls_error(const SSL* session, const std::string& host) {
  const unsigned long error = ERR_get_error();
  const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    return certificate_error(SSL_get_verify_result(session), host);
  }
  if (reason == SSL_R_WRONG_VERSION_NUMBER) {
    return {Kind::refused,
            "the server does not speak TLS there: write redis://, or the port that it has for TLS"};
  }
  // Beyond this number the reasons are what the server has said.
  const bool server_said_so = reason >= SSL_AD_REASON_OFFSET;
  if (server_said_so && reason != SSL_AD_REASON_OFFSET + SSL_AD_INTERNAL_ERROR) {
    return {Kind::refused,
            "the server refuses the TLS handshake: " + reason_of(error) +
                "; if it asks for the certificates of its clients, set "
                "redis::Options::tls.certificate_file and key_file to one that it accepts"};
  }
  return {Kind::broken, "TLS failed: " + reason_of(error)};
}

constexpr std::size_t kBuffer = std::size_t{16} * 1024;  // as large as a record of TLS

}  // namespace

void FreeTlsContext::operator()(ssl_ctx_st* context) const noexcept { SSL_CTX_free(context); }
void FreeTlsSession::operator()(ssl_st* session) const noexcept { SSL_free(session); }

TlsContext::TlsContext(const TlsSettings& settings) : context_(SSL_CTX_new(TLS_client_method())) {
  if (!context_) throw std::bad_alloc();
  ERR_clear_error();
  SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context_.get(), SSL_OP_NO_RENEGOTIATION);
  set_authorities(context_.get(), settings);
  set_certificate(context_.get(), settings);
}

TlsStream::TlsStream(Socket& socket, const TlsContext& context, const std::string& host,
                     Deadline deadline)
    : socket_(socket), session_(SSL_new(context.get())) {
  if (!session_) throw std::bad_alloc();
  // OpenSSL only encrypts: on a socket it would know no deadline, and raise SIGPIPE.
  BIO* received = BIO_new(BIO_s_mem());
  BIO* to_send = BIO_new(BIO_s_mem());
  if (received == nullptr || to_send == nullptr) {
    BIO_free(received);
    BIO_free(to_send);
    throw std::bad_alloc();
  }
  SSL_set_bio(session_.get(), received, to_send);
  SSL_set_connect_state(session_.get());
  expect(host);
  shake_hands(host, deadline);
}

// SNI holds names only.
void TlsStream::expect(const std::string& host) {
  SSL* session = session_.get();
  const bool set = is_address(host)
                       ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str()) == 1
                       : SSL_set1_host(session, host.c_str()) == 1 &&
                             SSL_set_tlsext_host_name(session, host.c_str()) == 1;
  if (!set) throw StreamError(Kind::refused, quote(host) + " cannot be the name of a TLS server");
}

void TlsStream::shake_hands(const std::string& host, Deadline deadline) {
  for (;;) {
    ERR_clear_error();
    const int result = SSL_do_handshake(session_.get());
    const int error = SSL_get_error(session_.get(), result);
    if (error == SSL_ERROR_SSL) {
      const StreamError reason = tls_error(session_.get(), host);
      try {
        pass_on(deadline);  // tells the server why
      } catch (const StreamError&) {
        // It has gone.
      }
      throw StreamError(reason);
    }
    pass_on(deadline);
    if (result == 1) return;
    if (!fetch(deadline)) {
      throw StreamError(Kind::broken, "the server closed the connection in the TLS handshake");
    }
  }
}

void TlsStream::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kBuffer);
    ERR_clear_error();
    if (SSL_write(session_.get(), bytes.data(), static_cast<int>(size)) <= 0) {
      throw tls_error(session_.get(), {});
    }
    try {
      pass_on(deadline);
    } catch (const StreamError&) {
      throw_if_refused(deadline);
      throw;
    }
    bytes.remove_prefix(size);
  }
}

// A server of TLS 1.3 that does not accept the client's certificate says so after the
// handshake, and resets the connection whatever else is on its way.
void TlsStream::throw_if_refused(Deadline deadline) {
  static_cast<void>(BIO_reset(SSL_get_wbio(session_.get())));
  std::array<char, 1> ignored;
  try {
    while (receive(ignored, deadline) > 0) {
    }
  } catch (const StreamError& error) {
    if (error.kind() == Kind::refused) throw;
  }
}

std::size_t TlsStream::receive(std::span<char> buffer, Deadline deadline) {
  const int most = static_cast<int>(std::min(buffer.size(), kBuffer));
  for (;;) {
    ERR_clear_error();
    const int read = SSL_read(session_.get(), buffer.data(), most);
    if (read > 0) return static_cast<std::size_t>(read);
    switch (SSL_get_error(session_.get(), read)) {
      case SSL_ERROR_WANT_READ:
        pass_on(deadline);
        if (!fetch(deadline)) return 0;
        break;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      default:
        throw tls_error(session_.get(), {});
    }
  }
}

void TlsStream::pass_on(Deadline deadline) {
  BIO* from = SSL_get_wbio(session_.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(from, &bytes);
  if (size <= 0) return;
  socket_.send({bytes, static_cast<std::size_t>(size)}, deadline);
  static_cast<void>(BIO_reset(from));
}

bool TlsStream::fetch(Deadline deadline) {
  std::array<char, kBuffer> buffer;
  const std::size_t size = socket_.receive(buffer, deadline);
  if (size == 0) return false;
  const int written =
      BIO_write(SSL_get_rbio(session_.get()), buffer.data(), static_cast<int>(size));
  if (written != static_cast<int>(size)) throw std::bad_alloc();
  return true;
}

}  // namespace outbox::redis
