// How far long work has come, for somebody who watches.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

namespace outbox::cli {

// The line that is shown, at most `width` columns of ASCII:
//   replaying [#########-----------]  1,234 of 2,500  49%  410 a second  3.1 s left
// Without a total it counts.
std::string progress_line(const std::string& doing, std::int64_t done,
                          std::optional<std::int64_t> total, std::chrono::microseconds running,
                          std::size_t width);

// Draws that line over and over in one place, ten times a second at most, and
// takes it away at the end. Does nothing without a terminal. Not thread-safe.
class Progress {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  // `width`: of the terminal behind `out`; absent if it is none.
  Progress(std::ostream& out, std::optional<std::size_t> width, std::string doing,
           std::optional<std::int64_t> total, Now now = std::chrono::steady_clock::now);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::int64_t done);

 private:
  std::ostream& out_;
  const std::optional<std::size_t> width_;
  const std::string doing_;
  const std::optional<std::int64_t> total_;
  const Now now_;
  const std::chrono::steady_clock::time_point started_;
  std::optional<std::chrono::steady_clock::time_point> drawn_;
};

}  // namespace outbox::cli
