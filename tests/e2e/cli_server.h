// The command line on a server: what all kinds of servers share.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cli_runner.h"

namespace outbox::e2e {

// Stands in every URL, to be kept secret.
inline const std::string kSecret = "hunter2";

// The URL of a user with that as the password.
inline std::string with_secret(std::string url) {
  return url.replace(url.find('@'), 1, ":" + kSecret + "@");
}

// A place of its own on a server: a schema or a database, with nothing in it.
class Server {
 public:
  virtual ~Server() = default;

  // The URL's beginning, without a user.
  virtual std::string scheme() const = 0;

  // What messages call such a database.
  virtual std::string product() const = 0;

  virtual std::string url() const = 0;

  // The same user and server, but a database that is not there.
  virtual std::string url_of_no_database() const = 0;

  // Whose URL `outbox migrate print` needs for the dialect.
  virtual std::string dialect() const = 0;

  // What stands before a table's name.
  virtual std::string place() const = 0;

  virtual std::shared_ptr<Store> store() const = 0;

  // Past the library.
  virtual void sql(const std::string& statements) const = 0;

  // The same where the table's constraints do not hold, as if it were older than they are.
  virtual void unchecked_sql(const std::string& statements) const = 0;
};

using MakeServer = std::unique_ptr<Server> (*)();

struct ServerKind {
  const char* variable;  // of the environment, that names the server
  MakeServer make;
};

// Every command on a server of the given kind.
class ServerCli : public CliTest {
 protected:
  explicit ServerCli(ServerKind kind) : kind_(kind) {}

  void SetUp() override;

  std::string url() const override { return server_->url(); }
  std::shared_ptr<Store> store() const override { return server_->store(); }
  void sql(const std::string& statements) const { server_->sql(statements); }
  const Server& server() const { return *server_; }

  // Whatever it says, the password is not in it.
  Result run(const Arguments& arguments, const RunOptions& options = {}) const;
  Result run_on(const std::string& other_url, const Arguments& arguments) const {
    return run(arguments, {.environment = {{"OUTBOX_DB", other_url}}});
  }

  // How the commands that messages recommend name this server: without the password.
  std::string shown_url() const;

  // The verdict and the words of one check of the doctor.
  static std::pair<std::string, std::string> check(const Result& doctor, const std::string& name);

 private:
  const ServerKind kind_;
  std::unique_ptr<Server> server_;
};

// Runs what cli_server_test.cc holds.
class EveryServerCli : public ServerCli, public ::testing::WithParamInterface<ServerKind> {
 protected:
  EveryServerCli() : ServerCli(GetParam()) {}
};

}  // namespace outbox::e2e
