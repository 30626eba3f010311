// Leases that come and go at any moment: the queue against a store that is a list
// of rows, with all steps of reader, workers and updates in an order drawn from a seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/work_queue.h"

namespace outbox::internal {
namespace {

constexpr Seq kEverything = std::numeric_limits<Seq>::max();
constexpr std::size_t kBatch = 2;
const Clock::Steady kNow{std::chrono::hours{1}};

class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    queue_.enable_polling(true);
    for (int& share : shares_) share = 1 << draw(5);
  }

  void step() {
    if (draw(shares_[0] * 16) == 0) return begin_lease(draw(2) == 0 ? 0 : ++last_epoch_);
    if (draw(shares_[0] * 16) == 0) return own(!owned_);
    if (draw(shares_[3] * 16) == 0) return hang();
    if (draw(shares_[3] * 64) == 0) return hand_over_hung();
    if (draw(4) == 0) return drain();
    if (draw(4) == 0) return deliver_elsewhere();
    if (draw(shares_[1] * 4) == 0) {
      rows_.push_back({.seq = static_cast<Seq>(rows_.size()) + 1, .lane = 101 + draw(3)});
      return;
    }
    go_on(draw(4) > 0 ? Kind::done : draw(2) > 0 ? Kind::wait : Kind::skip);
  }

  // Nothing new happens: everything is to be delivered and acknowledged in the end.
  bool comes_to_rest() {
    own(true);
    if (epoch_ == 0 || draw(2) == 0) begin_lease(++last_epoch_);
    shares_.fill(1);
    for (int n = 0; n < 50'000; ++n) {
      go_on(Kind::done);
      if (std::all_of(rows_.begin(), rows_.end(), [](const Stored& row) { return row.done; }) &&
          queue_.in_flight() == 0 && !read_ && queue_.known() == 0) {
        return true;
      }
    }
    return false;
  }

  const std::string& overtaken() const { return overtaken_; }

 private:
  using Kind = Decision::Kind;

  struct Stored {
    Seq seq = 0;
    LaneKey lane = kNoLane;
    LaneKey hold = 0;
    bool done = false;
    bool postponed = false;
  };
  struct Read {
    LaneRead lane{};  // without a key: ready rows
    std::vector<Stored> rows{};
    bool more = false;
  };
  struct Sent {
    Completion completion;
    bool finishes = false;
    bool applied = false;
    bool stale = false;
  };

  int draw(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void go_on(Kind kind) {
    switch (draw_by_share()) {
      case 0:
        return enter();
      case 1:
        return begin_read();
      case 2:
        return end_read();
      case 3:
        return work();
      case 4:
        return finish(kind);
      case 5:
        return apply();
      default:
        return answer();
    }
  }

  // Some are slow in one world, others in the next.
  int draw_by_share() {
    int left = draw(std::accumulate(shares_.begin(), shares_.end(), 0));
    int n = 0;
    for (; left >= shares_[static_cast<std::size_t>(n)]; ++n) {
      left -= shares_[static_cast<std::size_t>(n)];
    }
    return n;
  }

  // --- The keeper ---

  // Until another one begins, the store knows the last.
  void begin_lease(std::int64_t epoch) {
    epoch_ = epoch;
    if (epoch != 0) store_epoch_ = epoch;
    if (epoch != 0 && owned_) released_ = false;
    queue_.enter(epoch);
  }

  // Or it is being given up.
  void own(bool on) {
    owned_ = on;
    if (on) released_ = false;
    queue_.own(on ? std::vector{0} : std::vector<int>{});
  }

  void drain() {
    if (owned_ || released_ || epoch_ == 0 || reads_ || reader_epoch_ != epoch_) return;
    queue_.shed(0);
    hand_over_hung();
    released_ = queue_.forget_shard(0);
  }

  void hand_over_hung() {
    if (epoch_ == 0) return;
    for (const Job& job : running_) {
      if (!queue_.begin_hand_over(job)) continue;
      Job copy = job;
      copy.epoch = epoch_;
      send(copy, Kind::hand_over, false);
    }
  }

  // The next owner delivers in order, or holds a whole lane.
  void deliver_elsewhere() {
    if (!released_) return;
    const LaneKey lane = 101 + draw(3);
    const auto head = std::find_if(rows_.begin(), rows_.end(), [&](const Stored& row) {
      return row.lane == lane && !row.done;
    });
    if (head == rows_.end() || (head->postponed && draw(4) > 0)) return;
    head->postponed = false;
    delivered_.insert(head->seq);
    if (draw(4) > 0) {
      head->done = true;
      return;
    }
    for (Stored& row : rows_) {
      if (row.lane == lane) row.hold = lane;
    }
  }

  // --- The reader ---

  void enter() {
    const bool news = reader_epoch_ != epoch_ || reads_ != owned_;
    if (read_ || !news) return;
    reader_epoch_ = epoch_;
    reads_ = owned_;
    next_ = 0;
    read_through_ = reads_ ? 0 : -1;
    if (!reads_) return;
    std::set<LaneKey> known;
    for (const Stored& row : rows_) {
      if (row.hold == 0 || row.done || !known.insert(row.hold).second) continue;
      queue_.restore({.key = row.hold, .first = row.seq}, kNow);
    }
  }

  void begin_read() {
    if (read_ || reader_epoch_ == 0 || !reads_) return;
    Read read;
    hear_of_left_behind();
    if (draw(2) == 0) read.lane = queue_.next_lane(std::array{read_through_}, kNow);
    hear_of_left_behind();
    const bool of_lane = read.lane.key != kNoLane;
    const std::size_t limit = of_lane ? read.lane.limit : kBatch;
    queue_.read_begins();
    next_ = std::min(next_, std::exchange(rewind_, kEverything));
    for (Stored& row : rows_) {
      if (row.done || row.hold != read.lane.key || (!of_lane && row.seq < next_)) continue;
      if (draw(4) == 0) row.postponed = false;
      read.more = read.rows.size() == limit;
      if (read.more) break;
      read.rows.push_back(row);
    }
    read_ = std::move(read);
  }

  void end_read() {
    if (!read_) return;
    read_->lane.key == kNoLane ? hand_over() : load_lane();
    read_.reset();
    queue_.read_ends();
  }

  void hand_over() {
    for (const Stored& row : read_->rows) {
      Job job = job_of(row);
      const auto admission = queue_.admit(job);
      if (admission == WorkQueue::Admission::full) return;
      if (admission == WorkQueue::Admission::hold) hold(job);
      next_ = row.seq + 1;
      read_through_ = std::max(read_through_, row.seq);
    }
    if (!read_->more) read_through_ = kEverything;
  }

  void load_lane() {
    WorkQueue::LanePage page{.epoch = reader_epoch_, .more = read_->more};
    for (const Stored& row : read_->rows) {
      if (row.seq > read_->lane.read_through) {
        page.open_after = row.seq;
        page.more = true;
        break;
      }
      if (row.postponed) {
        page.due = kNow;
        break;
      }
      page.jobs.push_back(job_of(row));
    }
    queue_.load_lane(read_->lane.key, std::move(page));
  }

  Job job_of(const Stored& row) const {
    return {.row = {.ref = {.seq = row.seq, .hold = row.hold},
                    .event = Event::restore({.id = std::to_string(row.seq), .payload = json("1")})},
            .lane = row.lane,
            .epoch = reader_epoch_};
  }

  // --- The workers ---

  void work() {
    queue_.request_poll();  // lest it wait where there is nothing to do
    WorkQueue::Work work;
    queue_.take(work);
    if (work.poll) return queue_.poll_done(false);
    for (Job& job : work.jobs) {
      for (const Stored& row : rows_) {
        if (row.seq < job.row.ref.seq && row.lane == job.lane && !delivered_.contains(row.seq)) {
          overtaken_ +=
              std::to_string(job.row.ref.seq) + " before " + std::to_string(row.seq) + " ";
        }
      }
      delivered_.insert(job.row.ref.seq);
      running_.push_back(std::move(job));
    }
  }

  void hang() {
    if (running_.empty()) return;
    const auto one = static_cast<std::size_t>(draw(static_cast<int>(running_.size())));
    queue_.hangs(std::span(running_).subspan(one, 1));
  }

  void finish(Kind kind) {
    if (running_.empty()) return;
    std::swap(running_[static_cast<std::size_t>(draw(static_cast<int>(running_.size())))],
              running_.back());
    std::array finished{Completion{.job = std::move(running_.back()), .decision = {.kind = kind}}};
    running_.pop_back();
    WorkQueue::Followers followers = queue_.finish(finished, kNow);
    Job& job = finished[0].job;
    switch (finished[0].decision.kind) {
      case Kind::done:
        send(job, Kind::done, true);
        break;
      case Kind::wait:
        send(job, Kind::wait, false);
        break;
      case Kind::skip:
        send(job, Kind::skip, true);
        break;
      case Kind::drop:
        give_back(job);
        break;
      default:
        break;
    }
    for (const Job& follower : followers.held) hold(follower);
  }

  // --- The updates ---

  void send(const Job& job, Kind kind, bool finishes) {
    sent_.push_back({.completion = {.job = job, .decision = {.kind = kind}}, .finishes = finishes});
  }
  void hold(const Job& job) { send(job, Kind::hold, false); }

  void give_back(Job& job) {
    if (queue_.reclaim(job)) return hold(job);
    queue_.let_go(job);
  }

  void hear_of_left_behind() {
    for (const RowRef& row : queue_.take_left_behind()) rewind_ = std::min(rewind_, row.seq);
  }

  // The first of these updates, or, as if the store refused that one, another; but none before
  // an earlier one of its lane, unless that is a DONE.
  template <class Over, class Ready>
  std::deque<Sent>::iterator next_sent(const Over& over, const Ready& ready) {
    int skip = draw(4) > 0 ? 0 : draw(static_cast<int>(sent_.size()) + 1);
    std::set<LaneKey> waiting;
    for (auto one = sent_.begin(); one != sent_.end(); ++one) {
      if (over(*one)) continue;
      const LaneKey lane = one->completion.job.lane;
      if (!waiting.contains(lane) && ready(*one) && skip-- <= 0) return one;
      if (one->completion.decision.kind != Kind::done) waiting.insert(lane);
    }
    return sent_.end();
  }

  // In the store; the engine does not know yet.
  void apply() {
    const auto next =
        next_sent([](const Sent& one) { return one.applied; },
                  [&](const Sent& one) { return one.completion.job.epoch == store_epoch_; });
    if (next == sent_.end()) return;
    next->applied = true;
    next->stale = released_;
    if (released_) return;
    Stored& row = rows_[static_cast<std::size_t>(next->completion.job.row.ref.seq) - 1];
    row.done = row.done || next->finishes;
    row.hold = row.lane;
    row.postponed = next->completion.decision.kind == Kind::hand_over;
  }

  void answer() {
    const auto next = next_sent(
        [](const Sent&) { return false; },
        [&](const Sent& one) { return one.applied || one.completion.job.epoch != epoch_; });
    if (next == sent_.end()) return;
    Sent one = std::move(*next);
    sent_.erase(next);
    Job& job = one.completion.job;
    if (one.completion.decision.kind == Kind::hand_over) return queue_.handed_over(job, true);
    one.completion.stale = job.epoch != epoch_ && (!one.applied || one.stale);
    for (Job& left : queue_.acked({&one.completion, 1}, kNow)) give_back(left);
  }

  std::mt19937 random_;
  std::array<int, 7> shares_{};
  std::vector<Stored> rows_;
  WorkQueue queue_{{.cold_capacity = 10'000, .batch = 1, .lane_limit = 3}};
  std::int64_t epoch_ = 0;
  std::int64_t last_epoch_ = 0;
  std::int64_t store_epoch_ = 0;
  bool owned_ = true;
  bool released_ = false;  // it has been given up, and another one owns it

  std::int64_t reader_epoch_ = 0;
  bool reads_ = true;
  Seq next_ = 0;
  Seq rewind_ = kEverything;
  Seq read_through_ = 0;
  std::optional<Read> read_;

  std::vector<Job> running_;
  std::deque<Sent> sent_;
  std::set<Seq> delivered_;
  std::string overtaken_;
};

TEST(Leases, ComeAtAnyMomentAndNothingIsOvertakenOrForgotten) {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    World world(seed);
    for (int n = 0; n < 2'000; ++n) world.step();
    EXPECT_TRUE(world.comes_to_rest()) << "seed " << seed;
    ASSERT_EQ(world.overtaken(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace outbox::internal
