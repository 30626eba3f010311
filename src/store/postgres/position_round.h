// What one read by position asks, and what is made of the answers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/postgres/session.h"
#include "model/event_row.h"
#include "model/shards.h"
#include "outbox/spi/store.h"
#include "store/postgres/position.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// One read of ready rows: several statements together, whose answers become rows in the order of
// their numbers, as many as the limit allows; and what they tell of the positions, which is noted
// with the rows. What a look has found beyond the limit can be had later, as long as the positions
// hold. Used by one thread.
class PositionRound {
 public:
  struct Settings {
    bool total_order = false;
    bool with_copies = false;  // also delivery rows that are ready
    std::int64_t process = 0;  // of the server, that is to answer
  };

  PositionRound(Database& database, Positions& positions, const Settings& settings,
                std::vector<Positions::Part> parts, std::size_t most)  // rows asked for
      : database_(database),
        positions_(positions),
        settings_(settings),
        parts_(std::move(parts)),
        most_(most) {
    for (std::size_t place = 0; place < parts_.size(); ++place) {
      places_[static_cast<std::size_t>(parts_[place].shard)] = place;
      again_ += parts_[place].again.size();
    }
  }

  std::vector<Call> calls();

  // Takes what the calls have returned. Only if that is complete there are rows.
  enum class Outcome { complete, other_process, too_many_late };
  Outcome understand(std::vector<Result> results);

  // Of the look: its shards, and its snapshot.
  std::vector<Positions::Part> looked() const;
  const std::string& snapshot() const { return snapshot_; }

  // The next ones, `most` at most.
  Rows rows(const ReadLimit& limit, std::size_t most);

  // Whether more can be had from this read without another one.
  bool has_more() const {
    return passed_ < found_.size() && !settings_.with_copies && again_ == 0 && pages_.empty();
  }

  // The shard in which the rows were cut; nullopt if they were not.
  std::optional<int> cut_in() const { return cut_in_; }
  bool copies_left() const { return copies_full_; }

 private:
  enum class Kind { copy, open, late, fresh };
  struct Found {
    std::size_t result = 0;
    int row = 0;
    int shard = 0;
    Seq seq = 0;
    std::uint64_t key = 0;
    Kind kind = Kind::copy;
    bool has_copy = false;
    bool wanted = true;
  };

  bool is_late(const Positions::Part& part) const { return !part.cursor.target.empty(); }
  bool any_late() const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const auto& part) { return is_late(part); });
  }
  bool looks_at(const Positions::Part& part) const {
    return looks_ && !is_late(part) && (!settings_.total_order || !any_late());
  }
  std::size_t place_of(int shard) const { return places_[static_cast<std::size_t>(shard)]; }
  bool before(const Found& a, const Found& b) const {
    if (settings_.total_order) return a.seq < b.seq;
    return std::pair(place_of(a.shard), a.seq) < std::pair(place_of(b.shard), b.seq);
  }

  Call ready_copies() const;
  Call open() const;
  Call late_page();
  Call look() const;
  static Seq page_end(const Positions::Part& part);

  void add(std::size_t result, Kind kind);
  void add_look(std::size_t result);
  void end_pages();
  bool decode(std::span<const Found> found, ByteBudget& budget, std::vector<Row>& rows);
  void note(std::size_t from);

  // Constant after construction.
  Database& database_;
  Positions& positions_;
  const Settings settings_;
  const std::vector<Positions::Part> parts_;
  const std::size_t most_;
  PerShard<std::size_t> places_{};
  std::size_t again_ = 0;
  bool looks_ = false;

  std::vector<Kind> kinds_;  // of the calls
  std::vector<Result> results_;
  std::vector<Found> found_;
  std::map<int, Seq> pages_;  // how far they are complete, by shard
  std::string snapshot_;      // of the look
  bool copies_full_ = false;
  bool more_ = false;
  std::size_t passed_ = 0;  // of what was found: returned, or not wanted
  std::optional<int> cut_in_;
};

}  // namespace outbox::postgres
