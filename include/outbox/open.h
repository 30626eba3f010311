// Opens a store by its URL, for programs that choose their database at startup:
//
//   auto store = outbox::open(url, {outbox::sqlite::scheme(), outbox::postgres::scheme()});
//
// Only the schemes passed are known, and only their libraries are linked. A store of your own
// needs a scheme of its own:
//
//   outbox::open(url, {outbox::sqlite::scheme(),
//                      {.names = {"mine"}, .open = [](const std::string& u) { return ...; }}});
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "outbox/export.h"
#include "outbox/spi/store.h"

namespace outbox {

// One kind of store, and the URL schemes that name it.
struct Scheme {
  std::vector<std::string> names{};  // without the colon: "sqlite"; case does not matter

  // Gets the whole URL, with the scheme in lower case.
  std::function<std::shared_ptr<Store>(const std::string& url)> open{};
};

// Opens the store with the scheme that the URL names, and passes its exceptions on. Throws
// MisuseError if none of these schemes, or more than one, matches. Its message
// shows only the scheme of the URL: the rest may hold a password.
OUTBOX_EXPORT std::shared_ptr<Store> open(const std::string& url, std::span<const Scheme> schemes);

inline std::shared_ptr<Store> open(const std::string& url, std::initializer_list<Scheme> schemes) {
  return open(url, std::span<const Scheme>(schemes.begin(), schemes.size()));
}

}  // namespace outbox
