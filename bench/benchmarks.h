// The benchmarks; each adds its figures to the report.
#pragma once

#include "harness.h"
#include "scratch.h"

namespace outbox::bench {

// How fast a backlog goes, against the naive loop and the limit.
void drain_keep(const Settings& settings, Scratch& scratch, Report& report);
void drain_delete(const Settings& settings, Scratch& scratch, Report& report);

// From the return of a COMMIT to the listener.
void latency(const Settings& settings, Scratch& scratch, Report& report);

// What an event costs the transaction that writes it.
void write_one(const Settings& settings, Scratch& scratch, Report& report);

// The engine on the in-memory store, against the drain of SQLite.
void engine(const Settings& settings, Scratch& scratch, Report& report);

// How the cost of a poll grows with the table.
void poll_cost(const Settings& settings, Scratch& scratch, Report& report);

}  // namespace outbox::bench
