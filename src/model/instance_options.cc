// Apart from what the API shows, of which a library for one database must not have a copy.
#include "model/instance_options.h"

#include <string>

#include "base/bounded.h"
#include "outbox/error.h"

namespace outbox {
namespace {

void check_positive(const char* name, std::chrono::milliseconds time) {
  if (time.count() > 0) return;
  throw MisuseError(std::string("InstanceOptions::") + name + " must be positive, got " +
                    std::to_string(time.count()) + " ms");
}

}  // namespace

InstanceOptions checked(InstanceOptions options) {
  check_positive("lease", options.lease);
  if (options.row_claims) check_positive("lock_timeout", options.lock_timeout);
  options.lease = internal::bounded(options.lease);
  options.lock_timeout = internal::bounded(options.lock_timeout);
  return options;
}

void require_row_claims(bool row_claims) {
  if (!row_claims) throw MisuseError("claim() needs InstanceOptions::row_claims");
}

}  // namespace outbox
