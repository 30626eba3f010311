// The folder that the demo works in, and what lies where.
#pragma once

#include <filesystem>
#include <string>

namespace outbox::demo {

// Where the processes of one demo meet.
struct Workplace {
  std::filesystem::path folder{};
  std::filesystem::path database{};

  std::string receipts() const { return (folder / "receipts").string(); }
  std::string rollbacks() const { return (folder / "rollbacks").string(); }
  std::string socket() const { return (folder / "receiver.sock").string(); }
};

// Makes a fresh folder for temporary files (below $TMPDIR, or /tmp) and checks
// that `database`, or shop.db in that folder if it is empty, can be created.
// Throws PermanentError that names what cannot be used.
Workplace make_workplace(const std::string& database);

void remove_workplace(const Workplace& workplace) noexcept;

}  // namespace outbox::demo
