#include "simulation/judge.h"

#include <algorithm>
#include <utility>

namespace outbox::simulation {

std::string Judge::lane_of(const Event& event) const {
  if (options_.ordering == Ordering::none) return event.id();
  if (options_.ordering == Ordering::total) return "all";
  return event.aggregate_type() + "/" + event.aggregate_id();
}

// --- The server ---

void Judge::inserted(const void* transaction, std::span<const Event> events, std::uint64_t begun) {
  ++now_;
  Open& open = open_[transaction];
  if (open.number == 0) open.number = now_;
  for (const Event& event : events) {
    const std::string lane = lane_of(event);
    if (const auto known = events_.find(event.id()); known != events_.end()) {
      std::erase(lanes_[known->second.lane], event.id());  // it was rolled back
    }
    events_[event.id()] = {
        .lane = lane,
        .delayed = event.available_at() > event.occurred_at(),
        .calm = calm_,
        .transaction = open.number,
        .inserted_at = begun,
        .not_before = event.delay() ? now_in_simulation() + *event.delay() : Instant{},
        .available_at = event.delay() ? Time{} : event.available_at()};
    lanes_[lane].push_back(event.id());
    open.ids.push_back(event.id());
  }
}

void Judge::committing(const void* transaction, int history) {
  ++now_;
  for (const std::string& id : open_[transaction].ids) {
    events_[id].state = State::committing;
    events_[id].lost = history < server_->primary()->history;
  }
}

void Judge::committed(const void* transaction, int history) {
  ++now_;
  for (const std::string& id : open_[transaction].ids) {
    Told& told = events_[id];
    told.state = State::committed;
    told.committed_at = now_;
    told.lost = history < server_->primary()->history && !server_->store().admin().find(id);
  }
  open_.erase(transaction);
}

void Judge::rolled_back(const void* transaction) {
  ++now_;
  for (const std::string& id : open_[transaction].ids) events_[id].state = State::rolled_back;
  open_.erase(transaction);
}

void Judge::savepoint(const void* transaction, const std::string& name) {
  Open& open = open_[transaction];
  open.savepoints.emplace_back(name, open.ids.size());
}

void Judge::rolled_back_to(const void* transaction, const std::string& name) {
  ++now_;
  Open& open = open_[transaction];
  while (!open.savepoints.empty() && open.savepoints.back().first != name) {
    open.savepoints.pop_back();
  }
  const std::size_t kept = open.savepoints.empty() ? 0 : open.savepoints.back().second;
  for (; open.ids.size() > kept; open.ids.pop_back()) {
    events_[open.ids.back()].state = State::rolled_back;
  }
}

void Judge::read(std::string_view call, std::span<const Row> rows) {
  ++now_;
  if (!say_ || rows.empty()) return;
  std::string text = "server: " + std::string(call) + " returns";
  for (const Row& row : rows) text += " " + row.event.id();
  say_(text);
}

void Judge::updated(int history, std::int64_t epoch, std::span<const StatusUpdate> updates,
                    const UpdateResult& result) {
  ++now_;
  const auto stale = [&](std::size_t i) {
    return std::find(result.stale.begin(), result.stale.end(), i) != result.stale.end();
  };
  const bool counts = !result.fenced && history == server_->primary()->history;
  for (std::size_t i = 0; counts && i < updates.size(); ++i) {
    const auto found = events_.find(updates[i].event_id);
    if (!stale(i) && found != events_.end()) check_final(updates[i], found->second);
  }
  if (!say_) return;
  constexpr const char* kKinds[] = {"done", "retry", "defer", "dead", "hold", "crashes", "unblock"};
  std::string text = "server: epoch " + std::to_string(epoch) + " updates";
  for (std::size_t i = 0; i < updates.size(); ++i) {
    text += " " + updates[i].event_id + " " + kKinds[static_cast<std::size_t>(updates[i].kind)] +
            (stale(i) ? " (stale)" : "") + (i + 1 < updates.size() ? "," : "");
  }
  say_(text + (result.fenced ? ": fenced" : ""));
}

void Judge::check_final(const StatusUpdate& update, Told& told) {
  using Kind = StatusUpdate::Kind;
  // To a server that removes what is DONE, a row that is gone has been done.
  if (told.discarded && update.kind == Kind::done && options_.removes_done) {
    if (server_->store().admin().find(update.event_id)) {
      violated_("final: " + update.event_id + " was discarded, and has a row again");
    }
    return;
  }
  if (told.final && *told.final != update.kind &&
      !(*told.final == Kind::dead && update.kind == Kind::unblock)) {
    violated_("final: " + update.event_id + " was " +
              (*told.final == Kind::done ? "DONE" : "DEAD") + ", and is updated otherwise");
  }
  if (told.answered && (update.kind == Kind::retry || update.kind == Kind::defer)) {
    told.answered = false;
    told.deaths_before = deaths_;
  }
  if (update.kind == Kind::dead) check_dead(update, told);
  if (update.kind != Kind::done && update.kind != Kind::dead) return;
  if (update.kind == Kind::done && !told.done_at) told.done_at = now_in_simulation();
  told.final = update.kind;
  told.final_at = now_;
}

void Judge::check_dead(const StatusUpdate& update, const Told& told) {
  // Two in company, two alone.
  constexpr int kDeaths = 4;
  if (told.permanent || told.all_failures >= options_.max_attempts) return;
  if (deaths_ - told.deaths_before >= kDeaths) return;
  if (options_.on_dead == OnDead::park || failed_over_) return;  // with another one; as long ago
  violated_("dead: " + update.event_id + " is DEAD without a reason");
}

// --- Listeners ---

// Null if there is no such event.
Judge::Told* Judge::begin(int process, const Event& event, const Delivery& delivery) {
  ++now_;
  ++deliveries_;
  const auto found = events_.find(event.id());
  const bool ghost = found == events_.end() || found->second.state == State::inserted ||
                     found->second.state == State::rolled_back;
  if (ghost) {
    violated_("ghost: " + event.id() + " was not committed");
    return nullptr;
  }
  Told& told = found->second;
  if (told.discarded && !excused(told)) {
    violated_("final: " + event.id() + " is delivered although it was discarded");
  }
  if (delivery.epoch != 0) {
    const auto [owner, fresh] = epochs_.emplace(delivery.epoch, process);
    if (owner->second != process) {
      violated_("two owners: epoch " + std::to_string(delivery.epoch) + " is of process " +
                std::to_string(owner->second) + " and of " + std::to_string(process));
    }
  }
  if (told.begun == 0) told.begun_at = now_in_simulation();
  if (told.begun == 0 && told.delayed) check_time(event, told);
  if (told.begun++ == 0 && !told.delayed && !told.lost) check_order(event.id(), told);
  return &told;
}

void Judge::check_time(const Event& event, const Told& told) {
  // The clocks are read one after the other.
  constexpr std::chrono::milliseconds kSlack{1};
  if (now_in_simulation() + kSlack < told.not_before ||
      server_->store().clock().now() + kSlack < told.available_at) {
    violated_("early: " + event.id() + " is delivered before its time");
  }
}

void Judge::begins(int process, const Event& event, const Delivery& delivery) {
  Told* const told = begin(process, event, delivery);
  if (told == nullptr) return;
  const auto [running, alone] = running_.emplace(std::pair(process, told->lane), event.id());
  if (!alone) {
    violated_("two at once: " + event.id() + " while " + running->second +
              " of the same lane is being delivered by the same process");
  }
  if (told->successes > 0 && !was_in_flight_at_a_fault(*told)) {
    violated_("repeat: " + event.id() + " is delivered again, and was not in flight at any fault");
  }
  const int counted = delivery.attempt - 1;
  if (counted > told->all_failures || (counted != told->failures && !excused(*told))) {
    violated_("attempts: " + event.id() + " failed " + std::to_string(told->failures) +
              " times, and this is called attempt " + std::to_string(delivery.attempt));
  }
}

void Judge::handler_begins(int process, const Event& event, const Delivery& delivery,
                           const std::string& handler) {
  Told* const told = begin(process, event, delivery);
  if (told == nullptr || !told->handlers.contains(handler)) return;
  if (was_in_flight_at_a_fault(*told)) return;
  violated_("repeat: " + event.id() + " goes to " + handler +
            " again, and was not in flight at any fault");
}

void Judge::handler_ends(const Event& event, const std::string& handler, Outcome::Kind outcome) {
  ++now_;
  const auto found = events_.find(event.id());
  if (found == events_.end()) return;
  Told& told = found->second;
  told.answered = true;
  if (outcome == Outcome::Kind::failed) ++told.all_failures;
  if (outcome == Outcome::Kind::permanent) told.permanent = true;
  if (outcome != Outcome::Kind::done || !told.handlers.insert(handler).second) return;
  if (told.handlers.size() == options_.handlers.size()) ++told.successes;
}

void Judge::ends(int process, const Event& event, Outcome::Kind outcome) {
  ++now_;
  const auto found = events_.find(event.id());
  if (found == events_.end()) return;
  Told& told = found->second;
  running_.erase(std::pair(process, told.lane));
  told.answered = true;
  if (outcome == Outcome::Kind::done) ++told.successes;
  if (outcome == Outcome::Kind::failed) ++told.failures, ++told.all_failures;
  if (outcome == Outcome::Kind::permanent) told.permanent = true;
}

// --- Faults ---

Instant Judge::now_in_simulation() {
  const Scheduler* const scheduler = Scheduler::here();
  return scheduler == nullptr ? Instant{} : scheduler->now();
}

void Judge::fault(Instant from, Instant until) {
  faults_ = true;
  // An instance that could not renew its lease in time loses it a little later.
  fault_times_.emplace_back(from, until + options_.lease);
}

bool Judge::was_in_flight_at_a_fault(const Told& told) const {
  if (told.calm) return false;
  const Instant end = told.done_at.value_or(Instant::max());
  return std::any_of(fault_times_.begin(), fault_times_.end(), [&](const auto& fault) {
    return fault.first <= end && told.begun_at <= fault.second;
  });
}

void Judge::was_killed(int process) {
  ++deaths_;
  std::erase_if(running_, [&](const auto& entry) { return entry.first.first == process; });
}

void Judge::check_order(const std::string& id, const Told& told) {
  for (const std::string& earlier : lanes_[told.lane]) {
    if (earlier == id) return;
    const Told& before = events_.at(earlier);
    const bool precedes = before.transaction == told.transaction ||
                          (before.committed_at != 0 && before.committed_at <= told.inserted_at);
    if (!precedes || before.delayed || before.state != State::committed || before.lost) continue;
    if (before.successes > 0 || before.was_discarded) continue;
    const bool skips = options_.on_dead == OnDead::skip;
    if (skips && (before.permanent || before.all_failures >= options_.max_attempts)) continue;
    if (skips && (before.replayed || is_dead(earlier))) continue;
    violated_("order: " + id + " is delivered before " + earlier + " of the lane " + told.lane);
  }
}

// An instance whose epoch counts delivers only of shards that it has not released.
void Judge::check_owner(const std::string& id, std::int64_t epoch) {
  // A server that takes the place of another one may not know of a shard's last owner.
  if (options_.row_claims || failed_over_) return;
  // A delivering process may be killed; the server's locks are not to die with it.
  std::optional<Scheduler::ServerCall> in_server;
  if (Scheduler::here() != nullptr) in_server.emplace();
  const auto member = members_.find(epoch);
  const std::optional<EventRecord> record = server_->store().admin().find(id);
  if (member == members_.end() || !record) return;
  memory::Database& database = *server_->primary()->database;
  const bool released = [&] {
    MutexLock lock(database.mutex);
    return database.members.holds(member->second, epoch) &&
           !database.members.owns(member->second, record->row.ref.shard);
  }();
  if (released) {
    violated_("released: " + id + " is delivered by an instance that has released its shard");
  }
}

bool Judge::is_dead(const std::string& id) {
  const std::optional<EventRecord> record = server_->store().admin().find(id);
  return record && record->row.status == Status::dead;
}

// --- Leases ---

void Judge::owns(int process, const Event& event, std::int64_t epoch, Instant now) {
  check_owner(event.id(), epoch);
  // Between the last look at the clock and the delivery nobody waits for long.
  constexpr std::chrono::milliseconds kSlack{50};
  const auto renewal = renewals_.find(process);
  if (options_.row_claims || renewal == renewals_.end()) return;
  if (now <= renewal->second + options_.lease + kSlack) return;
  violated_("lease: " + event.id() + " is delivered by process " + std::to_string(process) +
            " after the end of its lease");
}

// --- Operators ---

void Judge::replayed(const std::string& id) {
  ++now_;
  Told& told = events_[id];
  told.failures = 0;
  told.replayed = true;
  told.final.reset();
}

void Judge::finished_by_hand(const std::string& id) {
  ++now_;
  Told& told = events_[id];
  told.edited = true;
  told.was_discarded = true;
}

void Judge::discarded(const std::string& id) {
  ++now_;
  events_[id].discarded = true;
  events_[id].was_discarded = true;
}

// --- Failovers ---

void Judge::replication_stops() { replicated_until_ = now_; }

void Judge::promoted() {
  faults_ = true;
  failed_over_ = true;
  for (auto& [id, told] : events_) {
    const std::optional<EventRecord> record = server_->store().admin().find(id);
    if (told.state == State::committed && !record) told.lost = true;
    if (told.final_at > replicated_until_) told.final.reset(), told.done_at.reset();
    if (record && record->row.status != Status::done) told.discarded = false;
  }
  replicated_until_ = std::numeric_limits<std::uint64_t>::max();
}

// --- The end ---

void Judge::conclude() {
  for (const auto& [id, told] : events_) {
    const std::optional<EventRecord> record = server_->store().admin().find(id);
    const bool committed = told.state == State::committed && !told.lost;
    if (!committed && record) violated_("ghost: the table has " + id);
    if (!committed || told.discarded || told.edited) continue;
    const bool dead = record && record->row.status == Status::dead;
    if (told.successes == 0 && !dead) {
      violated_("lost: " + id + " was committed, and is not delivered; it is " +
                (record ? std::string(to_string(record->row.status)) : "gone"));
    }
    if (excused(told)) continue;
    if (told.successes > 1) violated_("repeat: " + id + " without any fault");
    if (dead && told.successes > 0) {
      violated_("dead: " + id + " is DEAD although it was delivered");
    }
  }
}

}  // namespace outbox::simulation
