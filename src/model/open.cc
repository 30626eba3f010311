#include "outbox/open.h"

#include <algorithm>

#include "base/quote.h"
#include "base/url.h"
#include "outbox/error.h"

namespace outbox {
namespace {

bool has_name(const Scheme& scheme, const std::string& name) {
  return std::any_of(scheme.names.begin(), scheme.names.end(),
                     [&](const std::string& its) { return scheme_of(its + ":") == name; });
}

std::string list(std::span<const Scheme> schemes) {
  std::string text;
  for (const Scheme& scheme : schemes) {
    for (const std::string& name : scheme.names) {
      text.append(text.empty() ? "" : ", ").append(name).append(":");
    }
  }
  return text.empty() ? "none was passed to outbox::open()" : "known are " + text;
}

}  // namespace

std::shared_ptr<Store> open(const std::string& url, std::span<const Scheme> schemes) {
  const std::string name = scheme_of(url);
  if (name.empty()) {
    throw MisuseError("the store's URL begins with no scheme, such as sqlite:; " + list(schemes));
  }
  const Scheme* found = nullptr;
  for (const Scheme& scheme : schemes) {
    if (!has_name(scheme, name)) continue;
    if (found != nullptr) {
      throw MisuseError("two stores were passed to outbox::open() for " + quote(name + ":"));
    }
    found = &scheme;
  }
  if (found == nullptr) {
    throw MisuseError("no store is known for " + quote(name + ":") + "; " + list(schemes));
  }
  if (!found->open) {
    throw MisuseError("the scheme " + quote(name + ":") +
                      " was passed to outbox::open() without a function that opens a store");
  }
  return found->open(with_lower_scheme(url));
}

}  // namespace outbox
