#include "cli/demo/workplace.h"

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp is POSIX
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "cli/demo/wire.h"
#include "outbox/error.h"

namespace outbox::demo {
namespace {

namespace fs = std::filesystem;

// The demo writes and judges a whole shop; it must never do so in a database
// that somebody else uses.
void check_new_database(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw PermanentError(path.string() + " is a folder: --database takes the path of a file");
  }
  if (fs::exists(fs::symlink_status(path, error))) {
    throw PermanentError(path.string() +
                         " exists already, and the demo starts with a new database: remove it or "
                         "give another path with --database");
  }
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, error)) {
    throw PermanentError("cannot create " + path.string() + ": there is no folder " +
                         parent.string());
  }
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    const int reason = errno;
    throw PermanentError("cannot create " + path.string() + ": the folder " + parent.string() +
                         " is not writable for this user: " + std::strerror(reason));
  }
}

}  // namespace

Workplace make_workplace(const std::string& database) {
  Workplace workplace;
  if (!database.empty()) check_new_database(database);

  const char* base = std::getenv("TMPDIR");
  const fs::path parent = base != nullptr && *base != '\0' ? base : "/tmp";
  std::string folder = (fs::absolute(parent) / "outbox-demo-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    const int reason = errno;
    throw PermanentError("cannot make a temporary folder in " + parent.string() + ": " +
                         std::strerror(reason) + "; set TMPDIR to a folder that is writable");
  }
  workplace.folder = folder;
  workplace.database = database.empty() ? workplace.folder / "shop.db" : fs::absolute(database);
  try {
    check_socket_path(workplace.socket());
  } catch (const PermanentError& error) {
    remove_workplace(workplace);
    throw PermanentError(std::string(error.what()) +
                         "; set TMPDIR to a folder with a shorter path");
  }
  return workplace;
}

void remove_workplace(const Workplace& workplace) noexcept {
  std::error_code ignored;
  fs::remove_all(workplace.folder, ignored);
}

}  // namespace outbox::demo
