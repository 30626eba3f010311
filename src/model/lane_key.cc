#include "model/lane_key.h"

#include <cstdint>
#include <limits>

#include "base/hash.h"

namespace outbox {

LaneKey lane_key(std::string_view aggregate_type, std::string_view aggregate_id) noexcept {
  if (aggregate_id.empty()) return kNoLane;
  // "outbox lane keys" in the order in which the bytes are read. Public, as the
  // values have to agree between all who write to a table.
  SipHash hash(0x6c20786f6274756f, 0x7379656b20656e61);
  for (const std::string_view part : {aggregate_type, aggregate_id}) {
    hash.feed(std::uint64_t{part.size()});  // keeps "a" + "bc" apart from "ab" + "c"
    hash.feed(part);
  }
  const auto key =
      static_cast<LaneKey>(hash.finish() & std::uint64_t{std::numeric_limits<LaneKey>::max()});
  return key == kNoLane ? 1 : key;
}

}  // namespace outbox
