// Names in SQL, and of databases.
#pragma once

#include <string>
#include <string_view>

namespace outbox::sqlite {

// Throws MisuseError for a database without a file: it belongs to one
// connection, and the store needs many.
void check_database_path(const std::string& path);

inline constexpr std::string_view kUrlScheme = "sqlite";

// What open() takes: the path of `sqlite:PATH` and `sqlite:///ABSOLUTE/PATH`; SQLite's
// own `file:...?...` as it is. Throws MisuseError if it names no file, or a host.
std::string path_of_url(std::string_view url);

// For messages.
std::string describe_database(const std::string& file, const std::string& table);

// Fills in the names that SQL text of the library leaves open: `{table}` is the
// table's, `{x}` that of `<table>_x`, both quoted; `{columns}` lists what
// decode_row() reads, `{record}` what decode_record() reads, and `{filter}` is the
// condition that an EventFilter binds to, `{is_broken}` that of rows which contradict
// themselves.
std::string expand(std::string_view text, const std::string& table);

}  // namespace outbox::sqlite
