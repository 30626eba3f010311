// A store by its URL, for programs that are told where it is when they start:
//
//   auto store = outbox::open(url, {outbox::sqlite::scheme(), outbox::postgres::scheme()});
//
// Only what is passed is known, and only that need be linked. A store of your own
// takes part with a scheme of its own:
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

// One kind of store, known by what URLs begin with.
struct Scheme {
  std::vector<std::string> names{};  // without the colon: "sqlite"; case does not matter

  // Is given the whole URL, the scheme in lower case.
  std::function<std::shared_ptr<Store>(const std::string& url)> open{};
};

// Opens the store with the scheme that the URL names, and throws what that throws;
// MisuseError if there is no such scheme among these, or more than one. Its message
// shows nothing of the URL but the scheme: the rest may hold a password.
OUTBOX_EXPORT std::shared_ptr<Store> open(const std::string& url, std::span<const Scheme> schemes);

inline std::shared_ptr<Store> open(const std::string& url, std::initializer_list<Scheme> schemes) {
  return open(url, std::span<const Scheme>(schemes.begin(), schemes.size()));
}

}  // namespace outbox
