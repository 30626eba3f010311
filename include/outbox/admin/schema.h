// Which schema version a store's tables have. Every database has the same two calls in
// its own header:
//
//   outbox::SchemaStatus now = outbox::sqlite::schema_status("shop.db");
//   if (!now.up_to_date()) now = outbox::sqlite::migrate("shop.db");
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "outbox/clock.h"

namespace outbox {

// One migration.
struct SchemaStep {
  int version = 0;
  std::string name{};
  std::optional<Time> applied_at{};  // absent: not applied yet
};

struct SchemaStatus {
  int present = 0;  // the version of the tables; 0: there are none
  int latest = 0;   // the version that this library works with

  // In the order of their versions: those that this library knows, and those that a
  // newer one has applied.
  std::vector<SchemaStep> steps{};

  bool up_to_date() const noexcept { return present == latest; }

  // Made by a newer library; this one must not touch the tables.
  bool newer() const noexcept { return present > latest; }
};

}  // namespace outbox
