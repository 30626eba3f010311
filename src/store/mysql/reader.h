// What an owner reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "model/event_row.h"
#include "model/shards.h"
#include "outbox/spi/store.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

// Reads the rows that are ready, due or held. Used by one thread at a time.
//
// Every look for ready rows begins at the lowest one of each shard, because nothing
// cheap tells up to where all writers have committed. So it looks at the index alone, in
// one snapshot, for more rows than are wanted; the next reads fetch them from the table
// before it looks again. Rows that were committed meanwhile come later, which breaks no
// order: a row written after them is not in that snapshot either. What is finished or
// waits costs nothing.
//
// But MariaDB's snapshots are no clean cut: the server notes the open transactions one by one, and
// may pass one that is still open before it comes to the place of another that waits for it and
// has ended by then. Such a look shows a row and lacks one that was committed before it was
// written. So there a row is returned only when the next look, which began after that one and
// sees all that it should have shown, has found nothing new below it; see settled_through().
//
// In one order of all shards, a look counts up to the first place where one of them was cut: what
// lies beyond is looked for again. And it settles a row if it has found nothing new below it in any
// of them.
class Reader final : public Instance::Reader {
 public:
  // `total_order`: see InstanceOptions.
  Reader(Database& database, const ShardGenerations& gains, bool total_order)
      : database_(database), generations_(gains), total_order_(total_order) {}

  // It knows what it has returned: what is in flight is among that.
  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override;
  void rewind(Seq seq) override;

  DueRows due(std::span<const int> shards, const ReadLimit& limit) override;
  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) override;
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) override;
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override;

 private:
  // What is known of a shard from the reads before.
  struct Part {
    std::unordered_set<Seq> found;  // ready when it was last looked at, and not left out
    bool cut = false;               // there was more of it
    std::uint64_t generations_seen = 0;
  };
  struct Found {
    int shard;
    Seq seq;
    bool settled;  // nothing can still appear below it that belongs before it
  };
  struct Key {
    std::int64_t hold;
    Seq seq;
  };
  // A row that waits, and the server's time, in microseconds.
  struct Next {
    std::int64_t hold;
    std::int64_t now;
  };

  Part& part(int shard) { return parts_[static_cast<std::size_t>(shard)]; }
  std::vector<int> reading_order(std::span<const int> shards) const;
  std::size_t new_rows_of(int shard, std::span<const int> shards, std::size_t limit);
  bool more_of(std::span<const int> shards);
  void forget_other_connections();
  void forget_what_was_lost(std::span<const int> shards);
  void look_for_ready(std::span<const int> order, std::size_t limit);
  Seq complete_through(std::span<const int> order, const PerShard<std::vector<Seq>>& ready,
                       std::size_t limit);
  void settle(int shard, Seq through);
  std::vector<Seq> settled(std::size_t limit) const;
  std::vector<int> shards_ahead() const;
  std::vector<Key> look_for_due(std::span<const int> shards, std::int64_t now, std::size_t limit);
  std::optional<Next> next_due(std::span<const int> shards, std::int64_t moment);
  Rows fetch(std::span<const Seq> seqs, std::string_view condition, const ReadLimit& limit);

  Database& database_;
  const ShardGenerations& generations_;
  const bool total_order_;
  PerShard<Part> parts_{};

  // The connection that found what is remembered; see Database::connections().
  std::uint64_t found_by_ = 0;

  // Found and not fetched yet, by number.
  std::deque<Found> ahead_;

  // Where the last read was cut: the next one begins with the shard behind, so that
  // none is kept waiting by a long one.
  int begin_with_ = 0;

  std::vector<std::int64_t> notes_;  // that unblocked() has returned
};

// Up to which row of a shard a look vouches for what the looks before it have found: those were
// ready then, in any order; `ready` is what it shows itself, ascending, and `cut` if there is more.
Seq settled_through(const std::unordered_set<Seq>& found, std::span<const Seq> ready, bool cut);

// Appends the rows `order` of a result of `{light}`, as far as the budget goes; true if it
// ended before them.
bool decode_light_rows(Session& session, const Result& light, std::span<const int> order,
                       ByteBudget& budget, std::vector<Row>& rows);

// Commits may be seen before they are safe. Returns when all that the session has read so far will
// survive a crash of the server; to be called before rows that were read are handed out.
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
