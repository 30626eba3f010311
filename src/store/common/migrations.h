// The steps by which the tables of a store came to be what they are.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/admin/schema.h"

namespace outbox {

// A file of a store's folder schema/, as outbox_embed_schema() in cmake/ compiles it in.
struct Migration {
  int version;
  const char* name;
  const char* sql;
};

// All migrations of a store, by version. Constant, hence thread-safe.
class Migrations {
 public:
  // `store`: the namespace of its options, for messages.
  constexpr Migrations(std::span<const Migration> all, std::string_view store)
      : all_(all), store_(store) {}

  std::span<const Migration> all() const { return all_; }

  // The version that this library works with.
  int latest() const { return all_.back().version; }

  // Where tables stand to which these steps were applied, by version.
  SchemaStatus status(std::vector<SchemaStep> applied) const;

  // What tables of that version lack. Throws PermanentError if they are newer than this
  // library, or if they lack something and `migrate` is not set. `description`: of the
  // database.
  std::span<const Migration> missing(int version, bool migrate,
                                     const std::string& description) const;

  // Throws PermanentError if tables of that version are newer than this library.
  void check_not_newer(int version, const std::string& description) const;

 private:
  const std::span<const Migration> all_;
  const std::string_view store_;
};

}  // namespace outbox
