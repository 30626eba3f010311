// The two loops without a library that a drain is compared with.
#pragma once

#include <cstddef>
#include <string>

namespace outbox::bench {

// How one would write it first: claim 100 rows by an UPDATE, then mark each by
// an UPDATE of its own, which commits by itself. Delivers `events` of those
// pending; how many seconds it took.
double drain_naive(const std::string& database, std::size_t events);

// As fast as one thread can go with the same durability: SELECT the columns
// that the library selects, 500 rows at a time, and finish them by one
// statement in one transaction. Seconds for all that is pending.
enum class Finish { update, remove };
double drain_limit(const std::string& database, std::size_t events, Finish finish);

}  // namespace outbox::bench
