// The system calls by which a process changes what others see, each a place to die at.
//
// This program defines write(), send(), fsync() and the like itself, so that the database
// libraries, which are linked to it, call these. Each counts and goes on to the kernel.
#pragma once

#include <string>
#include <string_view>

namespace outbox::crash_points {

// How the process dies at a call: before it; after a few bytes of it, or half of them, have
// been written, where it writes any; after all of it, before it returns.
enum class Cut { before, few, half, after };

// Throws std::invalid_argument for an unknown name.
Cut cut_named(std::string_view name);

// From now on calls are counted, those to the standard streams apart, and the process kills
// itself at that one; 0: at none.
void count_calls(long die_at, Cut cut);

// How often each was called ("fdatasync 3, pwrite64 20").
std::string counted_calls();

// While one lives, its thread's calls are not counted: the books of the test are no part of
// what is tested.
class NotCounted {
 public:
  NotCounted();
  ~NotCounted();
  NotCounted(const NotCounted&) = delete;
  NotCounted& operator=(const NotCounted&) = delete;
};

}  // namespace outbox::crash_points
