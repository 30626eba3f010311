// Runs the binary as its user would: from a script, or at a terminal.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "outbox/admin/admin.h"
#include "outbox/sqlite.h"
#include "support/temporary_directory.h"

namespace outbox::e2e {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

struct Result {
  int code = -1;
  std::string out{};
  std::string err{};  // empty at a terminal, where both are one

  // Standard output as one JSON value, or as one a line.
  Json json() const { return Json::parse(out); }
  std::vector<Json> json_lines() const;
};

struct RunOptions {
  std::map<std::string, std::string> environment{};  // besides or instead of OUTBOX_DB
  std::string input{};
};

::testing::AssertionResult contains(const std::string& text, const std::string& part);
::testing::AssertionResult lacks(const std::string& text, const std::string& part);

// A folder with an SQLite database of its own, named by OUTBOX_DB.
class CliTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return directory_.file(name); }
  std::string database() const { return file("shop.db"); }

  // What OUTBOX_DB says, and the store there; it is made if need be.
  virtual std::string url() const { return database(); }
  virtual std::shared_ptr<Store> store() const { return sqlite::open(database()); }

  // Standard output and error apart, no terminal anywhere.
  Result run(const Arguments& arguments, const RunOptions& options = {}) const;

  // At a terminal of 100 columns, where the input is typed.
  Result run_at_terminal(const Arguments& arguments, const RunOptions& options = {}) const;

  // Both expect that it works; these return what is of interest.
  std::string publish(const std::string& type, const Arguments& more = {}) const;

  // Has an engine's hands on the event: it dies of the error, or is done with.
  void kill(const std::string& id, const std::string& error) const;
  void finish(const std::string& id) const;

  // The first fails and is tried again in an hour; the others wait behind it.
  void hold(const std::vector<std::string>& ids, const std::string& error) const;

  // Past the library.
  void sql(const std::string& statement) const;

 private:
  void update(const std::vector<StatusUpdate>& updates) const;
  StatusUpdate update_of(const std::string& id, StatusUpdate::Kind kind) const;

  const test::TemporaryDirectory directory_;
};

}  // namespace outbox::e2e
