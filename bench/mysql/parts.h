// What mysql_subject() is made of; see Subject.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "subject.h"

namespace outbox::bench {

void fill_mysql(const std::string& url, const LanePage& filling);
void tidy_up_mysql(const std::string& url);

// Into an empty database of the same server.
void copy_mysql(const std::string& from, const std::string& to);

std::unique_ptr<BareWriter> mysql_writer(const std::string& url);
double mysql_naive(const std::string& url, std::size_t events);
double mysql_limit(const std::string& url, std::size_t events, Finish finish);
std::vector<Visited> mysql_visited(const std::string& url, const std::function<void()>& poll);

}  // namespace outbox::bench
