// Writes events by the C API alone.
#pragma once

#include <cstdint>
#include <string>

#include "bare.h"

namespace outbox::bench {

// The library's own INSERT, prepared once, in a transaction of its own. Used by
// one thread at a time.
class BareWriter {
 public:
  // Makes the tables if need be.
  explicit BareWriter(const std::string& path);

  void write(std::uint64_t number);

  // Commits a second measured over so many transactions.
  double rate(std::size_t transactions);

 private:
  Bare bare_;
  sqlite::StatementHandle begin_;
  sqlite::StatementHandle insert_;
  sqlite::StatementHandle commit_;
};

}  // namespace outbox::bench
