#include "client/postgres/canceller.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>
#include <utility>

#include "base/thread.h"

namespace outbox::postgres {
namespace {

using std::chrono::steady_clock;

// Beyond it a connection is merely closed: the limits on the server's side do the rest.
constexpr std::size_t kMostWaiting = 16;

// How long the end of the store waits for a server that answers.
constexpr std::chrono::milliseconds kFarewell{500};

using CancelHandle = std::unique_ptr<PGcancel, Destroyer<PQfreeCancel>>;

}  // namespace

Canceller::~Canceller() {
  if (getpid() != pid_) return;
  const auto deadline = steady_clock::now() + kFarewell;
  const MutexLock lock(work_->mutex);
  while (work_->at_work && work_->ended.wait_until(work_->mutex, deadline)) {
  }
}

void Canceller::give_up(ConnectionHandle connection) noexcept {
  try {
    const MutexLock lock(work_->mutex);
    if (work_->waiting.size() >= kMostWaiting) return;
    work_->waiting.push_back(std::move(connection));
    if (work_->at_work) return;
    std::thread([work = work_] { run(work); }).detach();
    work_->at_work = true;
  } catch (const std::exception&) {
    // No memory or no thread: the server finds out for itself, later.
  }
}

void Canceller::run(const std::shared_ptr<Work>& work) noexcept {
  name_this_thread("outbox-cancel");
  while (true) {
    ConnectionHandle next;
    {
      const MutexLock lock(work->mutex);
      if (work->waiting.empty()) {
        work->at_work = false;
        work->ended.notify_all();
        return;
      }
      next = std::move(work->waiting.front());
      work->waiting.pop_front();
    }
    // Closed only then: a pooler forgets with a connection what it is to be cancelled by.
    if (const CancelHandle cancel(PQgetCancel(next.get())); cancel) {
      std::array<char, 256> ignored{};
      PQcancel(cancel.get(), ignored.data(), ignored.size());
    }
  }
}

}  // namespace outbox::postgres
