#include "system_calls.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <stdexcept>

namespace outbox::crash_points {
namespace {

enum Call {
  k_write,
  k_writev,
  k_pwrite,
  k_send,
  k_sendmsg,
  k_fsync,
  k_fdatasync,
  k_ftruncate,
  k_rename,
  k_unlink,
  kCalls
};
constexpr std::array<const char*, kCalls> kNames{"write",   "writev", "pwrite",    "send",
                                                 "sendmsg", "fsync",  "fdatasync", "ftruncate",
                                                 "rename",  "unlink"};

constexpr std::size_t kFewBytes = 3;

// Everything here is used by calls of any thread, at any time.
std::atomic<bool> counting{false};
std::atomic<long> death{0};
std::atomic<Cut> how{Cut::before};
std::atomic<long> total{0};
std::array<std::atomic<long>, kCalls> counts{};
thread_local int not_counted = 0;

[[noreturn]] void die() {
  syscall(SYS_kill, getpid(), SIGKILL);
  for (;;) pause();
}

// Whether to die at this call.
bool is_the_one(Call call) {
  if (!counting || not_counted > 0) return false;
  ++counts[call];
  return ++total == death;
}

// `forward(n)` makes the call with so many of its bytes, or with all.
template <class Forward>
auto counted(Call call, std::size_t bytes, const Forward& forward) {
  if (!is_the_one(call)) return forward(bytes);
  switch (how.load()) {
    case Cut::before:
      break;
    case Cut::few:
      if (bytes > kFewBytes) forward(kFewBytes);
      break;
    case Cut::half:
      if (bytes > 1) forward(bytes / 2);
      break;
    case Cut::after:
      forward(bytes);
      break;
  }
  die();
}

bool is_standard_stream(int file) { return file <= STDERR_FILENO; }

}  // namespace

Cut cut_named(std::string_view name) {
  if (name == "before") return Cut::before;
  if (name == "few") return Cut::few;
  if (name == "half") return Cut::half;
  if (name == "after") return Cut::after;
  throw std::invalid_argument("a cut is one of before, few, half, after; got '" +
                              std::string(name) + "'");
}

void count_calls(long die_at, Cut cut) {
  death = die_at;
  how = cut;
  counting = true;
}

std::string counted_calls() {
  std::string text;
  for (int call = 0; call < kCalls; ++call) {
    const long count = counts[static_cast<std::size_t>(call)];
    if (count == 0) continue;
    text.append(text.empty() ? "" : ", ").append(kNames[static_cast<std::size_t>(call)]);
    text.append(" ").append(std::to_string(count));
  }
  return text;
}

NotCounted::NotCounted() { ++not_counted; }
NotCounted::~NotCounted() { --not_counted; }

}  // namespace outbox::crash_points

// --- What the libraries call ---

using namespace outbox::crash_points;  // NOLINT(google-build-using-namespace): C functions

extern "C" {

ssize_t write(int file, const void* data, size_t size) {
  const auto forward = [&](size_t bytes) { return syscall(SYS_write, file, data, bytes); };
  return is_standard_stream(file) ? forward(size) : counted(k_write, size, forward);
}

ssize_t writev(int file, const iovec* pieces, int count) {
  const auto forward = [&](size_t) { return syscall(SYS_writev, file, pieces, count); };
  return is_standard_stream(file) ? forward(0) : counted(k_writev, 0, forward);
}

ssize_t pwrite(int file, const void* data, size_t size, off_t offset) {
  return counted(k_pwrite, size,
                 [&](size_t bytes) { return syscall(SYS_pwrite64, file, data, bytes, offset); });
}

ssize_t pwrite64(int file, const void* data, size_t size, off64_t offset) {
  return pwrite(file, data, size, offset);
}

ssize_t sendto(int socket, const void* data, size_t size, int flags, const sockaddr* address,
               socklen_t address_size) {
  return counted(k_send, size, [&](size_t bytes) {
    return syscall(SYS_sendto, socket, data, bytes, flags, address, address_size);
  });
}

ssize_t send(int socket, const void* data, size_t size, int flags) {
  return sendto(socket, data, size, flags, nullptr, 0);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  return counted(k_sendmsg, 0,
                 [&](size_t) { return syscall(SYS_sendmsg, socket, message, flags); });
}

int fsync(int file) {
  return counted(k_fsync, 0, [&](size_t) { return static_cast<int>(syscall(SYS_fsync, file)); });
}

int fdatasync(int file) {
  return counted(k_fdatasync, 0,
                 [&](size_t) { return static_cast<int>(syscall(SYS_fdatasync, file)); });
}

int ftruncate(int file, off_t size) noexcept {
  return counted(k_ftruncate, 0,
                 [&](size_t) { return static_cast<int>(syscall(SYS_ftruncate, file, size)); });
}

int ftruncate64(int file, off64_t size) noexcept { return ftruncate(file, size); }

int rename(const char* from, const char* to) noexcept {
  return counted(k_rename, 0, [&](size_t) {
    return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  });
}

int unlink(const char* path) noexcept {
  return counted(k_unlink, 0, [&](size_t) {
    return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
  });
}

}  // extern "C"
