// Commits that are seen before they are safe.
#pragma once

#include "client/mysql/session.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

// Returns when all that the session has read so far will survive a crash of the server;
// to be called before rows that were read are handed out.
//
// Where Session::shows_commits_early(), that takes a write: the server acknowledges its
// commit only when its log is on the disk up to there, and whatever could be read before
// is in that log before it. Elsewhere it does nothing. Row claims need none of it: they
// are writes themselves.
//
// It must be the session that has read: a new connection may lead to a server that has
// crashed and come back without those rows, and would find nothing wrong. `shard` is one
// of those that were read, whose row is written.
//
// Throws as Session::run() does; then nothing is known, and nothing may be handed out.
void sync_log(Session& session, int shard);

}  // namespace outbox::mysql
