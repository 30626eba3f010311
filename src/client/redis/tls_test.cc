#include "client/redis/tls.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "client/redis/connection.h"
#include "client/redis/test_support.h"
#include "outbox/error.h"
#include "outbox/testing.h"
#include "support/services.h"
#include "support/sockets.h"
#include "support/tcp_proxy.h"
#include "support/temporary_directory.h"

namespace outbox::redis {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::message_of;

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;

// Signs certificates, all of them with the same key, into files that a server of another
// user can read.
class Authority {
 public:
  explicit Authority(const std::string& name) : name_(name), key_(EVP_EC_gen("P-256")) {
    chmod(folder_.path().c_str(), 0755);
    certificate_ = sign(name, "CA:TRUE", "", 24h);
    write("ca", *certificate_);
    const auto file = open(key_file());
    PEM_write_PrivateKey(file.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }

  std::string ca_file() const { return folder_.file("ca.pem"); }
  std::string key_file() const { return folder_.file("key.pem"); }

  // `valid`: from an hour ago until so much later than now.
  std::string issue(const std::string& host, std::chrono::seconds valid) const {
    write(host, *sign(host, "CA:FALSE", "DNS:" + host, valid));
    return folder_.file(host + ".pem");
  }

  std::string key_with_password() const {
    const std::string path = folder_.file("locked.pem");
    const auto file = open(path);
    unsigned char password[] = "unknown";
    PEM_write_PrivateKey(file.get(), key_.get(), EVP_aes_128_cbc(), password, 7, nullptr, nullptr);
    return path;
  }

 private:
  Certificate sign(const std::string& subject, const char* constraints, const std::string& names,
                   std::chrono::seconds valid) const {
    Certificate made(X509_new());
    X509* certificate = made.get();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++last_serial_);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), static_cast<long>(valid.count()));
    X509_set_pubkey(certificate, key_.get());
    set_name(X509_get_subject_name(certificate), subject);
    set_name(X509_get_issuer_name(certificate), name_);
    add(certificate, NID_basic_constraints, constraints);
    if (!names.empty()) add(certificate, NID_subject_alt_name, names);
    EXPECT_GT(X509_sign(certificate, key_.get(), EVP_sha256()), 0);
    return made;
  }

  static void set_name(X509_NAME* name, const std::string& text) {
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1, 0);
  }
  static void add(X509* certificate, int kind, const std::string& value) {
    const std::unique_ptr<X509_EXTENSION, Free> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str()));
    X509_add_ext(certificate, extension.get(), -1);
  }
  std::unique_ptr<std::FILE, Free> open(const std::string& path) const {
    return std::unique_ptr<std::FILE, Free>(std::fopen(path.c_str(), "w"));
  }
  void write(const std::string& name, X509& certificate) const {
    PEM_write_X509(open(folder_.file(name + ".pem")).get(), &certificate);
  }

  const std::string name_;
  const Key key_;
  test::TemporaryDirectory folder_;
  Certificate certificate_;
  mutable long last_serial_ = 0;
};

std::string setting(Connection& connection, std::string_view name) {
  const ReplyHandle reply = connection.command({"CONFIG", "GET", name});
  if (reply->elements != 2) throw std::runtime_error("Redis does not know " + std::string(name));
  return {reply->element[1]->str, reply->element[1]->len};
}

// On the server of all tests, which has a certificate for localhost.
class RedisTlsTest : public RedisTest {
 protected:
  void SetUp() override {
    RedisTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    Connection plain(target(), {});
    tls_port_ = std::stoi(setting(plain, "tls-port"));
    settings_.ca_file = setting(plain, "tls-ca-cert-file");
  }

  ConnectOptions tls_target(int port) const {
    return ConnectOptions::parse("rediss://default:@localhost:" + std::to_string(port));
  }
  ConnectOptions tls_target() const { return tls_target(tls_port_); }

  // With a password that no message may show.
  template <class Error>
  static std::string refusal(ConnectOptions target, const TlsSettings& settings,
                             Timeouts timeouts = {}) {
    target.password = "tOpSeCrEt";
    const TlsContext context(settings);
    std::string message = message_of<Error>([&] { Connection(target, timeouts, &context); });
    EXPECT_EQ(message.find("tOpSeCrEt"), message.npos) << message;
    return message;
  }

  int tls_port_ = 0;
  TlsSettings settings_{};
};

TEST_F(RedisTlsTest, CarriesCommandsOfAnyBytes) {
  const TlsContext context(settings_);
  Connection connection(tls_target(), {}, &context);
  const std::string bytes("a\0b\r\n\xff", 6);
  EXPECT_EQ(text(connection, {"ECHO", bytes}), bytes);
  EXPECT_EQ(text(connection, {"ECHO", ""}), "");
  EXPECT_TRUE(connection.healthy());
  ConnectOptions third = tls_target();
  third.database = 3;
  EXPECT_TRUE(
      contains(text(*std::make_unique<Connection>(third, Timeouts{}, &context), {"CLIENT", "INFO"}),
               " db=3 "));
}

TEST_F(RedisTlsTest, CarriesLargeValuesBothWays) {
  const TlsContext context(settings_);
  Connection connection(tls_target(), {.answer = 20s}, &context);
  for (const std::size_t size : {std::size_t{16'384}, std::size_t{16'385}, std::size_t{1} << 20}) {
    std::string large(size, ' ');
    for (std::size_t i = 0; i < size; ++i) large[i] = static_cast<char>(i * i >> 7);
    EXPECT_TRUE(text(connection, {"ECHO", large}) == large) << size;
  }
}

TEST_F(RedisTlsTest, AnAuthorityThatIsNotKnownIsRefused) {
  const Authority other("somebody else");
  for (const std::string& file : {std::string(), other.ca_file()}) {
    const std::string message = refusal<PermanentError>(tls_target(), {.ca_file = file});
    EXPECT_TRUE(contains(message, "cannot connect to Redis (localhost:"));
    EXPECT_TRUE(contains(message, "the server's certificate is not accepted: self"));
    EXPECT_TRUE(contains(message, "set redis::Options::tls.ca_file"));
  }
}

TEST_F(RedisTlsTest, ACertificateForAnotherHostIsRefused) {
  ConnectOptions by_address = tls_target();
  by_address.host = "127.0.0.1";
  EXPECT_TRUE(contains(refusal<PermanentError>(by_address, settings_), "not for \"127.0.0.1\""));
}

TEST_F(RedisTlsTest, VerificationCanBeSwitchedOff) {
  const TlsContext context({.verify = false});
  Connection connection(tls_target(), {}, &context);
  EXPECT_EQ(text(connection, {"PING"}), "PONG");
}

TEST_F(RedisTlsTest, APlainServerIsNotTakenForOneWithTls) {
  const int plain_port = test::port_of(test::redis_url());
  EXPECT_TRUE(
      contains(refusal<UnavailableError>(tls_target(plain_port), settings_, {.connect = 300ms}),
               "no answer within 300 ms; if it does not speak TLS at that port, write redis://"));
  // Others answer.
  test::TcpProxy proxy("127.0.0.1", tls_port_);
  proxy.replace_reply("localhost", "HTTP/1.1 400 Bad Request\r\n\r\n");
  EXPECT_TRUE(contains(refusal<PermanentError>(tls_target(proxy.port()), settings_),
                       "does not speak TLS there: write redis://"));
}

TEST_F(RedisTlsTest, AServerWithTlsIsNotTakenForAPlainOne) {
  Connection connection(ConnectOptions::parse("redis://localhost:" + std::to_string(tls_port_)),
                        {});
  EXPECT_TRUE(contains(message_of<UnavailableError>([&] { connection.command({"PING"}); }),
                       "if it speaks TLS at that port, write rediss://"));
}

TEST_F(RedisTlsTest, AServerThatStopsInTheHandshakeIsNotWaitedForTooLong) {
  test::TcpProxy proxy("127.0.0.1", tls_port_);
  const Timeouts short_one{.connect = 300ms};
  // In the ClientHello: it is the name of the server for SNI.
  proxy.hold_request("localhost");
  EXPECT_TRUE(contains(refusal<UnavailableError>(tls_target(proxy.port()), settings_, short_one),
                       "no answer within 300 ms"));
  EXPECT_EQ(proxy.accepted(), 1);
  // Nobody accepts.
  const test::Descriptor silent = test::listen_on_loopback(0);
  EXPECT_TRUE(contains(
      refusal<UnavailableError>(tls_target(test::local_port(silent)), settings_, short_one),
      "no answer within 300 ms"));
  // Or it ends.
  proxy.drop_reply("localhost");
  refusal<UnavailableError>(tls_target(proxy.port()), settings_);
  EXPECT_EQ(proxy.drops(), 1);
}

TEST_F(RedisTlsTest, AnAnswerThatTakesTooLongLosesTheConnection) {
  test::TcpProxy proxy("127.0.0.1", tls_port_);
  const TlsContext context(settings_);
  Connection connection(tls_target(proxy.port()), {.answer = 1s}, &context);
  EXPECT_EQ(text(connection, {"PING"}), "PONG");
  proxy.stall();
  EXPECT_TRUE(contains(message_of<UnavailableError>([&] { connection.command({"PING"}); }),
                       "no answer within 1000 ms"));
  EXPECT_TRUE(connection.lost());
  EXPECT_TRUE(connection.timed_out());
}

TEST_F(RedisTlsTest, AServerThatHasGoneRaisesNoSignal) {
  test::TcpProxy proxy("127.0.0.1", tls_port_);
  const TlsContext context(settings_);
  Connection connection(tls_target(proxy.port()), {}, &context);
  proxy.cut();
  ASSERT_TRUE(test::eventually([&] { return !connection.healthy(); }));
  EXPECT_THROW(connection.command({"PING"}), UnavailableError);
  EXPECT_THROW(connection.command({"PING"}), UnavailableError);
  EXPECT_TRUE(connection.lost());
}

TEST_F(RedisTlsTest, AClientConnectsAgain) {
  test::TcpProxy proxy("127.0.0.1", tls_port_);
  testing::RecordingLog log;
  Client client(tls_target(proxy.port()), {.tls = settings_, .log = log.log()});
  EXPECT_EQ(text(*client.take(), {"PING"}), "PONG");
  EXPECT_EQ(text(*client.take(), {"PING"}), "PONG");
  EXPECT_EQ(proxy.accepted(), 1);
  proxy.cut();
  EXPECT_TRUE(test::eventually([&] {
    try {
      return text(*client.take(), {"PING"}) == "PONG";
    } catch (const UnavailableError&) {
      return false;
    }
  }));
}

TEST_F(RedisTlsTest, ItsOptionsNeedAUrlThatAsksForIt) {
  testing::RecordingLog log;
  EXPECT_TRUE(contains(
      message_of<MisuseError>([&] { Client(target(), {.tls = settings_, .log = log.log()}); }),
      "write rediss://"));
}

TEST(RedisTlsContext, FilesThatCannotBeUsedAreRefused) {
  const Authority authority("an authority");
  const std::string certificate = authority.issue("shop", 1h);
  const auto refusal_of = [](const TlsSettings& settings) {
    return message_of<MisuseError>([&] { TlsContext{settings}; });
  };
  EXPECT_TRUE(contains(refusal_of({.ca_file = "/no/such/file"}),
                       "tls.ca_file: \"/no/such/file\" cannot be used: No such file"));
  EXPECT_TRUE(contains(refusal_of({.ca_file = authority.key_file()}), "tls.ca_file"));
  EXPECT_TRUE(contains(refusal_of({.certificate_file = certificate}), "set both or neither"));
  EXPECT_TRUE(contains(refusal_of({.key_file = certificate}), "set both or neither"));
  EXPECT_TRUE(
      contains(refusal_of({.certificate_file = "/no/such/file", .key_file = authority.key_file()}),
               "tls.certificate_file"));
  EXPECT_TRUE(contains(refusal_of({.certificate_file = certificate, .key_file = certificate}),
                       "tls.key_file"));
  // Nobody is asked for it at the terminal.
  EXPECT_TRUE(contains(
      refusal_of({.certificate_file = certificate, .key_file = authority.key_with_password()}),
      "tls.key_file"));
  const Authority other("another one");
  EXPECT_TRUE(contains(refusal_of({.certificate_file = certificate, .key_file = other.key_file()}),
                       "mismatch"));
}

// On a server of its own, whose certificate changes.
class RedisTlsServerTest : public RedisTlsTest {
 protected:
  void SetUp() override {
    RedisTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    server_ = std::make_unique<test::OwnServer>("redis");
    admin_.emplace(ConnectOptions::parse(server_->url()), Timeouts{});
    tls_port_ = std::stoi(setting(*admin_, "tls-port"));
    settings_.ca_file = authority_.ca_file();
  }

  void use(const std::string& certificate_file) {
    admin_->command({"CONFIG", "SET", "tls-cert-file", certificate_file, "tls-key-file",
                     authority_.key_file(), "tls-ca-cert-file", authority_.ca_file()});
  }

  const Authority authority_{"an authority"};
  std::unique_ptr<test::OwnServer> server_;
  std::optional<Connection> admin_;
};

TEST_F(RedisTlsServerTest, ItsCertificateMustBeValidAndForTheHost) {
  use(authority_.issue("localhost", 1h));
  const TlsContext context(settings_);
  EXPECT_EQ(text(*std::make_unique<Connection>(tls_target(), Timeouts{}, &context), {"PING"}),
            "PONG");
  use(authority_.issue("localhost", -60s));
  const std::string expired = refusal<PermanentError>(tls_target(), settings_);
  EXPECT_TRUE(contains(expired, "certificate has expired; give the server a new one"));
  use(authority_.issue("db.example", 1h));
  EXPECT_TRUE(contains(refusal<PermanentError>(tls_target(), settings_), "not for \"localhost\""));
}

TEST_F(RedisTlsServerTest, MayAskForTheCertificatesOfItsClients) {
  use(authority_.issue("localhost", 1h));
  admin_->command({"CONFIG", "SET", "tls-auth-clients", "yes"});
  EXPECT_TRUE(contains(refusal<PermanentError>(tls_target(), settings_),
                       "set redis::Options::tls.certificate_file and key_file"));
  const auto with_certificate = [&](const Authority& signed_by) {
    TlsSettings settings = settings_;
    settings.certificate_file = signed_by.issue("shop", 1h);
    settings.key_file = signed_by.key_file();
    return settings;
  };
  const TlsContext context(with_certificate(authority_));
  EXPECT_EQ(text(*std::make_unique<Connection>(tls_target(), Timeouts{}, &context), {"PING"}),
            "PONG");
  const Authority other("another one");
  EXPECT_TRUE(contains(refusal<PermanentError>(tls_target(), with_certificate(other)),
                       "to one that it accepts"));
}

}  // namespace
}  // namespace outbox::redis
