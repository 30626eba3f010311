// Objects of C libraries in typed holders.
#pragma once

namespace outbox {

// What std::unique_ptr<T, Destroyer<destroy_t>> calls at its end.
template <auto Destroy>
struct Destroyer {
  template <class T>
  void operator()(T* handle) const noexcept {
    Destroy(handle);
  }
};

}  // namespace outbox
