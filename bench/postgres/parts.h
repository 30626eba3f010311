// What postgres_subject() is made of; see Subject.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "subject.h"

namespace outbox::bench {

void fill_postgres(const std::string& url, const LanePage& filling);
std::unique_ptr<BareWriter> postgres_writer(const std::string& url);
double postgres_naive(const std::string& url, std::size_t events);
double postgres_limit(const std::string& url, std::size_t events, Finish finish);
std::vector<Visited> postgres_visited(const std::string& url, std::size_t rows);

}  // namespace outbox::bench
