// What the binary's exit code tells a script; the numbers are sysexits(3)'s.
#pragma once

namespace outbox::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;          // it ran, and the answer is bad
inline constexpr int kUsage = 64;          // the command line makes no sense
inline constexpr int kUnavailable = 69;    // something that it needs is away; may work later
inline constexpr int kConfiguration = 78;  // what it was pointed at cannot be used

}  // namespace outbox::cli
