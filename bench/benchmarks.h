// The benchmarks; each adds its figures to the report.
#pragma once

#include "harness.h"
#include "subject.h"

namespace outbox::bench {

// How fast a backlog goes, against the naive loop and the limit.
void drain_keep(const Settings& settings, Subject& subject, Report& report);
void drain_delete(const Settings& settings, Subject& subject, Report& report);

// The same by position, against row state, and what either writes to the database's log.
void drain_position(const Settings& settings, Subject& subject, Report& report);

// The same by several instances: by rows against the naive loop, by shards against one.
void row_claims(const Settings& settings, Subject& subject, Report& report);
void instances(const Settings& settings, Subject& subject, Report& report);

// Whether a dispatcher keeps up with those who write.
void keep_up(const Settings& settings, Subject& subject, Report& report);

// From the return of a COMMIT to the listener.
void latency(const Settings& settings, Subject& subject, Report& report);

// What the server works for events that come at a steady pace.
void server_cpu(const Settings& settings, Subject& subject, Report& report);

// What an event costs the transaction that writes it.
void write_one(const Settings& settings, Subject& subject, Report& report);

// The same beside a statement of the application's own.
void write_with_business(const Settings& settings, Subject& subject, Report& report);

// The same when it is sent together with the COMMIT.
void write_at_commit(const Settings& settings, Subject& subject, Report& report);

// What it costs writers to tell other processes of their commits.
void notify(const Settings& settings, Subject& subject, Report& report);

// Many events written at once, against one by one.
void write_all(const Settings& settings, Subject& subject, Report& report);

// What the inbox costs the transaction of a consumer.
void inbox(const Settings& settings, Subject& subject, Report& report);

// The engine on the in-memory store, against the drain of the subject.
void engine(const Settings& settings, Subject& subject, Report& report);

// How the cost of a poll grows with the table.
void poll_cost(const Settings& settings, Subject& subject, Report& report);

}  // namespace outbox::bench
