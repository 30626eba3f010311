// Names for threads, as debuggers and `top` show them.
#pragma once

#include <pthread.h>

#include <string>
#include <string_view>

namespace outbox {

// Names the calling thread. The kernel keeps 15 characters; the rest is cut.
inline void name_this_thread(std::string_view name) {
  pthread_setname_np(pthread_self(), std::string(name.substr(0, 15)).c_str());
}

}  // namespace outbox
