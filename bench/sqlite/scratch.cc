#include "sqlite/scratch.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "harness.h"

namespace outbox::bench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

class File {
 public:
  File(const std::string& path, int flags) : descriptor_(open(path.c_str(), flags, 0644)) {
    if (descriptor_ < 0) fail("open " + path);
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

fs::path parent() {
  if (const char* folder = std::getenv("TMPDIR"); folder != nullptr && *folder != '\0') {
    return folder;
  }
  const fs::path build = fs::current_path() / "build";
  return fs::exists(build) ? build : fs::current_path();
}

}  // namespace

Scratch::Scratch() {
  std::string name = (parent() / "outbox-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) fail("mkdtemp " + name);
  folder_ = name;
  struct statfs system {};
  if (statfs(name.c_str(), &system) != 0) fail("statfs " + name);
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC) {
    fs::remove_all(folder_);
    throw std::runtime_error(name + " is in memory: set TMPDIR to a folder on a disk");
  }
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string Scratch::fresh() { return (folder_ / (std::to_string(++files_) + ".db")).string(); }

std::string Scratch::copy(const std::string& database) {
  const std::string path = fresh();
  fs::copy_file(database, path);
  const File file(path, O_RDWR);
  if (fsync(file.get()) != 0) fail("fsync " + path);
  return path;
}

void Scratch::remove(const std::string& database) {
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(database + suffix);
}

double Scratch::sync_cost() {
  constexpr int kTimes = 50;
  const std::string path = fresh();
  const File file(path, O_RDWR | O_CREAT);
  const std::array<char, 4096> page{};
  Samples micros;
  for (int n = 0; n < kTimes; ++n) {
    micros.push_back(1e6 * seconds_of([&] {
                       if (write(file.get(), page.data(), page.size()) < 0) fail("write " + path);
                       if (fdatasync(file.get()) != 0) fail("fdatasync " + path);
                     }));
  }
  remove(path);
  return median(micros);
}

}  // namespace outbox::bench
