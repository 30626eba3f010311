// SQLite for the command line.
#pragma once

#include <string>

#include "cli/stores/backend.h"

namespace outbox::cli {

class SqliteBackend final : public Backend {
 public:
  SqliteBackend(std::string path, std::string table);

  std::string description() const override;
  std::string arguments() const override;
  std::string missing_file() const override;
  SchemaStatus schema_status() override;
  SchemaStatus migrate() override;
  std::string schema_sql() const override;
  std::shared_ptr<Store> open() override;
  std::vector<Finding> examine(const ExamineOptions& options) override;
  RepairSql repair_sql() const override;

 private:
  const std::string path_;  // or one of SQLite's URIs
  const std::string table_;
};

}  // namespace outbox::cli
