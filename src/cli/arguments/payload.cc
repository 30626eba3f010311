#include "cli/arguments/payload.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/quote.h"
#include "cli/errors.h"

namespace outbox::cli {
namespace {

std::string read_all(std::istream& in, const std::string& name) {
  // One byte more than allowed tells that there is more.
  std::string data(kMaxPayloadBytes + 1, '\0');
  in.read(data.data(), static_cast<std::streamsize>(data.size()));
  data.resize(static_cast<std::size_t>(in.gcount()));
  if (in.bad()) throw UsageError("--payload: cannot read " + name);
  if (data.size() > kMaxPayloadBytes) {
    throw UsageError("--payload: " + name + " holds more than " + std::to_string(kMaxPayloadBytes) +
                     " bytes, the most that an event may carry");
  }
  return data;
}

}  // namespace

std::string read_payload(const std::string& argument, std::istream& in) {
  if (argument == "-") return read_all(in, "standard input");
  if (!argument.starts_with("@")) return argument;
  const std::string path = argument.substr(1);
  std::ifstream file(path, std::ios::binary);
  // Opening a folder succeeds; reading it does not.
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    if (!file.is_open() || file.bad()) {
      throw UsageError("--payload: cannot read " + quote(path) + ": " + std::strerror(errno));
    }
    file.clear();
  }
  return read_all(file, quote(path));
}

Headers parse_headers(const std::vector<std::string>& arguments) {
  Headers headers;
  for (const std::string& argument : arguments) {
    const auto equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("--header: write KEY=VALUE, with a key" +
                       (equals == 0 ? std::string() : "; there is no = in " + quote(argument)));
    }
    const std::string key = argument.substr(0, equals);
    if (!headers.emplace(key, argument.substr(equals + 1)).second) {
      throw UsageError("--header: the key " + quote(key) + " comes twice");
    }
  }
  return headers;
}

}  // namespace outbox::cli
