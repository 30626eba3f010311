// SQLite databases named by URLs.
#pragma once

#include <string>
#include <string_view>

namespace outbox::sqlite {

// What open() takes: the path of `sqlite:PATH` and `sqlite:///ABSOLUTE/PATH`; SQLite's
// own `file:...?...` as it is. Throws MisuseError if it names no file, or a host.
std::string path_of_url(std::string_view url);

}  // namespace outbox::sqlite
