// PostgreSQL for the command line.
#pragma once

#include <string>

#include "cli/stores/backend.h"

namespace outbox::cli {

class PostgresBackend final : public Backend {
 public:
  // Throws MisuseError for a URL that makes no sense.
  PostgresBackend(std::string url, std::string table);

  std::string description() const override;
  std::string arguments() const override;
  SchemaStatus schema_status() override;
  SchemaStatus migrate() override;
  std::string schema_sql() const override;
  std::shared_ptr<Store> open() override;
  std::vector<Finding> examine(const ExamineOptions& options) override;
  RepairSql repair_sql() const override;

 private:
  const std::string url_;  // with its password
  const std::string table_;
  const std::string place_;
  const std::string public_url_;
};

}  // namespace outbox::cli
