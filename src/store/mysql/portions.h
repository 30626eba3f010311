// Statements that are not too long.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "client/mysql/session.h"

namespace outbox::mysql {

// Of a statement without what depends on its values, at most.
inline constexpr std::size_t kStatementBytes = 4'096;

// How many bytes the values of a statement may take: what the server admits, but no more
// than a few MiB, because others wait meanwhile.
inline std::size_t value_bytes(const Session& session) {
  constexpr std::size_t kMany = 4 << 20;
  return std::min(session.max_packet(), kMany) - std::min(session.max_packet(), kStatementBytes);
}

// Calls work(part) for one part of the rows after the other, each of which fits into a
// statement as a list of numbers; and the optimizer of MariaDB passes over an index for
// lists of more than some thousand.
template <class T, class Work>
void in_portions(const Session& session, std::span<const T> rows, const Work& work) {
  constexpr std::size_t kMost = 5'000;
  constexpr std::size_t kNumberBytes = 21;
  const std::size_t size = std::clamp<std::size_t>(value_bytes(session) / kNumberBytes, 1, kMost);
  while (!rows.empty()) {
    const std::span<const T> part = rows.first(std::min(size, rows.size()));
    rows = rows.subspan(part.size());
    work(part);
  }
}

}  // namespace outbox::mysql
