// What sqlite_subject() is made of; see Subject.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "subject.h"

namespace outbox::bench {

void fill_sqlite(const std::string& path, const LanePage& filling);
std::unique_ptr<BareWriter> sqlite_writer(const std::string& path);
double sqlite_naive(const std::string& path, std::size_t events);
double sqlite_limit(const std::string& path, std::size_t events, Finish finish);
std::vector<Visited> sqlite_visited(const std::string& path, std::size_t rows);

}  // namespace outbox::bench
