// Our own header comes first and brings <utility>, which Boost 1.74 needs and does not include.
#include "server.h"

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

namespace web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kThreads = 4;
constexpr std::size_t kMaxBodyBytes = std::size_t{1024} * 1024;
constexpr std::chrono::seconds kTimeout{30};  // for a request, or for a client to take an answer
constexpr std::chrono::seconds kLinger{2};
constexpr std::chrono::milliseconds kPause{100};

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at] == '+' ? ' ' : text[at];
      continue;
    }
    const std::string_view digits = text.substr(at + 1, 2);
    unsigned value = 0;
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, value, 16);
    if (digits.size() < 2 || parsed.ec != std::errc() || parsed.ptr != end) {
      throw RequestError(400, "\"%" + std::string(digits) + "\" is not a valid escape");
    }
    out += static_cast<char>(value);
    at += 2;
  }
  return out;
}

// What is before the separator; takes both off the text.
std::string_view take_until(std::string_view& text, char separator) {
  const std::string_view first = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(first.size() + 1, text.size()));
  return first;
}

Request parsed(std::string_view method, std::string_view target) {
  Request request{.method = std::string(method), .path = std::string(take_until(target, '?'))};
  while (!target.empty()) {
    std::string_view value = take_until(target, '&');
    const std::string_view name = take_until(value, '=');
    request.parameters.emplace_back(decoded(name), decoded(value));
  }
  return request;
}

Response called(const Routes& routes, const Request& request) {
  const auto methods = routes.find(request.path);
  if (methods == routes.end()) {
    return error_response(404, "there is nothing at " + request.path);
  }
  const auto handler = methods->second.find(request.method);
  if (handler != methods->second.end()) return handler->second(request);
  std::string allowed;
  for (const auto& [method, unused] : methods->second) {
    allowed += (allowed.empty() ? "" : ", ") + method;
  }
  Response response = error_response(405, request.path + " takes " + allowed);
  response.headers.emplace_back("Allow", allowed);
  return response;
}

Response answered(const Routes& routes, std::string_view method, std::string_view target) {
  try {
    return called(routes, parsed(method, target));
  } catch (const RequestError& error) {
    return error_response(error.status(), error.what());
  } catch (const std::exception& error) {
    std::cerr << "rest_service: " << method << ' ' << target << ": " << error.what() << '\n';
    return error_response(500, "the request failed; the server's log says why");
  }
}

// One client: reads a request, answers it, and again. One step is under way at a time, and keeps
// the object alive.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, const Routes& routes) : stream_(std::move(socket)), routes_(routes) {}

  void read() {
    parser_.emplace();
    parser_->body_limit(kMaxBodyBytes);
    stream_.expires_after(kTimeout);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, std::size_t) { self->take(error); });
  }

 private:
  void take(error_code error) {
    if (error == http::error::body_limit) {
      return respond(error_response(413, "the body is larger than 1 MiB"), false);
    }
    if (error == http::error::end_of_stream) return;
    if (error.category() == http::make_error_code(http::error::bad_method).category()) {
      return respond(error_response(400, error.message()), false);
    }
    if (error) return;  // timed out, or gone
    const auto& request = parser_->get();
    const std::string method(request.method_string());
    const std::string target(request.target());
    respond(answered(routes_, method, target), request.keep_alive());
  }

  void respond(Response response, bool keep_alive) {
    response_ = {static_cast<http::status>(response.status), 11, std::move(response.body)};
    response_.set(http::field::content_type, response.content_type);
    for (const auto& [name, value] : response.headers) response_.set(name, value);
    response_.keep_alive(keep_alive);
    response_.prepare_payload();
    stream_.expires_after(kTimeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this(), keep_alive](error_code error, std::size_t) {
                        if (error) return;
                        if (keep_alive) return self->read();
                        self->linger();
                      });
  }

  // Takes what the client is still sending. If we closed at once, the reset would take our answer
  // with it.
  void linger() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(kLinger);
    discard();
  }

  void discard() {
    stream_.async_read_some(asio::buffer(discarded_),
                            [self = shared_from_this()](error_code error, std::size_t) {
                              if (!error) self->discard();
                            });
  }

  beast::tcp_stream stream_;
  const Routes& routes_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  std::array<char, 4096> discarded_{};
};

}  // namespace

std::string Request::require(const std::string& name) const {
  std::vector<std::string> found;
  for (const auto& [key, value] : parameters) {
    if (key == name) found.push_back(value);
  }
  const std::string parameter = "the parameter \"" + name + "\" is ";
  if (found.empty()) throw RequestError(400, parameter + "missing");
  if (found.size() > 1) {
    throw RequestError(400, parameter + "given " + std::to_string(found.size()) + " times");
  }
  if (found.front().empty()) throw RequestError(400, parameter + "empty");
  return found.front();
}

Response error_response(int status, const std::string& message) {
  using Json = nlohmann::json;
  // `replace`: an invalid byte that came in must not become an exception here.
  const std::string body =
      Json{{"error", message}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  return {.status = status, .body = body + "\n"};
}

class Server::Impl {
 public:
  Impl(Routes routes, std::uint16_t port)
      : routes_(std::move(routes)),
        acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), port)) {
    accept();
    for (int n = 0; n < kThreads; ++n) threads_.emplace_back([this] { context_.run(); });
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  void stop() {
    context_.stop();
    threads_.clear();  // joins them
  }

 private:
  void accept() {
    acceptor_.async_accept(asio::make_strand(context_), [this](error_code error, auto socket) {
      if (!error) {
        std::make_shared<Session>(std::move(socket), routes_)->read();
        return accept();
      }
      // Out of descriptors: asking again at once would only burn the processor.
      pause_.expires_after(kPause);
      pause_.async_wait([this](error_code) { accept(); });
    });
  }

  const Routes routes_;
  asio::io_context context_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_{context_};
  std::vector<std::jthread> threads_;
};

Server::Server(Routes routes, std::uint16_t port)
    : impl_(std::make_unique<Impl>(std::move(routes), port)) {}
Server::~Server() { stop(); }
std::uint16_t Server::port() const { return impl_->port(); }
void Server::stop() { impl_->stop(); }

}  // namespace web
