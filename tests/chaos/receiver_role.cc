#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

#include "courier.h"
#include "ledger.h"
#include "outbox/clock.h"
#include "role_signals.h"
#include "roles.h"

namespace outbox::chaos {
namespace {

// One thread, so that the order of the ledger is the order of arrival.
class Receiver {
 public:
  explicit Receiver(const Settings& settings)
      : ledger_(ledger_path(settings.directory)),
        socket_(listen_at(socket_path(settings.directory))) {}

  void run(int stop) {
    for (;;) {
      std::vector<pollfd> polled{{stop, POLLIN, 0}, {socket_.get(), POLLIN, 0}};
      for (const Descriptor& sender : senders_) polled.push_back({sender.get(), POLLIN, 0});
      if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
        throw std::system_error(errno, std::generic_category(), "poll");
      }
      if (polled[0].revents != 0) return;
      std::vector<Descriptor> left;
      for (std::size_t i = 0; i < senders_.size(); ++i) {
        if (polled[i + 2].revents == 0 || serve(senders_[i].get())) {
          left.push_back(std::move(senders_[i]));
        }
      }
      senders_ = std::move(left);
      if (polled[1].revents != 0) accept_one();
    }
  }

 private:
  void accept_one() {
    Descriptor sender(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (sender) senders_.push_back(std::move(sender));
  }

  // False if the sender is gone.
  bool serve(int sender) {
    std::array<char, 512> packet{};
    const ssize_t size = recv(sender, packet.data(), packet.size(), 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (size <= 0) return false;
    Arrival arrival = parse_line({packet.data(), static_cast<std::size_t>(size)});
    arrival.at = host_clock().now().time_since_epoch().count();
    ledger_.append(to_line(arrival));
    // Gone meanwhile: then nobody hears it, and the event comes again.
    return send(sender, "+", 1, MSG_NOSIGNAL) == 1;
  }

  Ledger ledger_;
  Descriptor socket_;
  std::vector<Descriptor> senders_;
};

}  // namespace

int run_receiver(const Settings& settings) {
  const RoleSignals signals;
  const Descriptor stop(signalfd(-1, &signals.set(), SFD_CLOEXEC | SFD_NONBLOCK));
  if (!stop) throw std::system_error(errno, std::generic_category(), "signalfd");
  Receiver(settings).run(stop.get());
  return 0;
}

}  // namespace outbox::chaos
