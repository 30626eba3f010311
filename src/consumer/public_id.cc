#include "consumer/public_id.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "base/check_text.h"
#include "base/quote.h"
#include "outbox/consumer/idempotent_create.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

using RandomBytes = std::array<unsigned char, 20>;  // five bits of each are used

RandomBytes random_bytes() {
  RandomBytes bytes{};
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + have, bytes.size() - have, 0);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "getrandom");
    }
  }
  return bytes;
}

bool may_be_in_prefix(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
         c == '_';
}

}  // namespace

std::string new_public_id(std::string_view prefix) {
  constexpr char kDigits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  std::string id(prefix);
  if (!id.empty()) id += '_';
  for (const unsigned char byte : random_bytes()) id += kDigits[byte & 31];
  return id;
}

void check_public_id_prefix(std::string_view field, std::string_view prefix) {
  check_text(field, prefix, kMaxPublicIdPrefixLength);
  if (std::all_of(prefix.begin(), prefix.end(), may_be_in_prefix)) return;
  throw MisuseError(std::string(field) +
                    " may have letters, digits, \"-\" and \"_\" only: " + quote(prefix));
}

}  // namespace outbox::internal
