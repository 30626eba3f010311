#include "outbox/version.h"

namespace outbox {

std::string_view version() noexcept { return OUTBOX_VERSION; }

}  // namespace outbox
