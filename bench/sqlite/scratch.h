// Where the databases of a run live.
#pragma once

#include <filesystem>
#include <string>

namespace outbox::bench {

// A folder on a real disk, removed at the end: in TMPDIR if it is set, else
// under the current folder's build/. Throws std::runtime_error if that is in
// memory, where a commit would cost nothing.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

  // A path for a new database. remove() deletes it and its side files.
  std::string fresh();

  // A copy of a closed database that has reached the disk, so that the commits
  // measured next do not pay for it.
  std::string copy(const std::string& database);

  static void remove(const std::string& database);

  // What a write of one page and its fdatasync cost here, in microseconds.
  double sync_cost();

 private:
  std::filesystem::path folder_;
  int files_ = 0;
};

}  // namespace outbox::bench
