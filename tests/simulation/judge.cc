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

void Judge::inserted(const void* transaction, std::span<const Event> events) {
  ++now_;
  Open& open = open_[transaction];
  if (open.number == 0) open.number = now_;
  for (const Event& event : events) {
    const std::string lane = lane_of(event);
    events_[event.id()] = {.lane = lane,
                           .delayed = event.delay().has_value(),
                           .transaction = open.number,
                           .inserted_at = now_};
    lanes_[lane].push_back(event.id());
    open.ids.push_back(event.id());
  }
}

void Judge::committing(const void* transaction) {
  ++now_;
  for (const std::string& id : open_[transaction].ids) events_[id].state = State::committing;
}

void Judge::committed(const void* transaction) {
  ++now_;
  for (const std::string& id : open_[transaction].ids) {
    Told& told = events_[id];
    told.state = State::committed;
    told.committed_at = now_;
  }
  open_.erase(transaction);
}

void Judge::rolled_back(const void* transaction) {
  ++now_;
  for (const std::string& id : open_[transaction].ids) events_[id].state = State::rolled_back;
  open_.erase(transaction);
}

void Judge::read(std::string_view call, std::span<const Row> rows) {
  ++now_;
  if (!say_ || rows.empty()) return;
  std::string text = "server: " + std::string(call) + " returns";
  for (const Row& row : rows) text += " " + row.event.id();
  say_(text);
}

void Judge::marked(std::int64_t epoch, std::span<const Mark> marks, const MarkResult& result) {
  ++now_;
  if (!say_) return;
  constexpr const char* kKinds[] = {"done",  "retry",   "defer",  "dead",
                                    "aside", "suspect", "unblock"};
  std::string text = "server: epoch " + std::to_string(epoch) + " marks";
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const bool stale = std::find(result.stale.begin(), result.stale.end(), i) != result.stale.end();
    text += " " + marks[i].event_id + " " + kKinds[static_cast<std::size_t>(marks[i].kind)] +
            (stale ? " (stale)" : "") + (i + 1 < marks.size() ? "," : "");
  }
  say_(text + (result.fenced ? ": fenced" : ""));
}

// --- Listeners ---

void Judge::begins(int process, const Event& event, const Delivery& delivery) {
  ++now_;
  ++deliveries_;
  const auto found = events_.find(event.id());
  const bool ghost = found == events_.end() || found->second.state == State::inserted ||
                     found->second.state == State::rolled_back;
  if (ghost) return violated_("ghost: " + event.id() + " was not committed");
  Told& told = found->second;

  if (delivery.epoch != 0) {
    const auto [owner, fresh] = epochs_.emplace(delivery.epoch, process);
    if (owner->second != process) {
      violated_("two owners: epoch " + std::to_string(delivery.epoch) + " is of process " +
                std::to_string(owner->second) + " and of " + std::to_string(process));
    }
  }
  if (told.begun++ == 0 && !told.delayed) check_order(event.id(), told);

  const auto [running, alone] = running_.emplace(std::pair(process, told.lane), event.id());
  if (!alone) {
    violated_("two at once: " + event.id() + " while " + running->second +
              " of the same lane is being delivered by the same process");
  }
  if (told.successes > 0 && !faults_) {
    violated_("repeat: " + event.id() + " is delivered again without any fault");
  }
  const int counted = delivery.attempt - 1;
  if (counted > told.failures || (counted != told.failures && !faults_)) {
    violated_("attempts: " + event.id() + " failed " + std::to_string(told.failures) +
              " times, and this is called attempt " + std::to_string(delivery.attempt));
  }
}

void Judge::ends(int process, const Event& event, Outcome::Kind outcome) {
  ++now_;
  const auto found = events_.find(event.id());
  if (found == events_.end()) return;
  Told& told = found->second;
  running_.erase(std::pair(process, told.lane));
  if (outcome == Outcome::Kind::done) ++told.successes;
  if (outcome == Outcome::Kind::failed) ++told.failures;
  if (outcome == Outcome::Kind::permanent) told.permanent = true;
}

void Judge::was_killed(int process) {
  faults_ = true;
  std::erase_if(running_, [&](const auto& entry) { return entry.first.first == process; });
}

void Judge::check_order(const std::string& id, const Told& told) {
  for (const std::string& earlier : lanes_[told.lane]) {
    if (earlier == id) return;
    const Told& before = events_.at(earlier);
    const bool precedes = before.transaction == told.transaction ||
                          (before.committed_at != 0 && before.committed_at < told.inserted_at);
    if (!precedes || before.delayed || before.state != State::committed || before.successes > 0)
      continue;
    if (before.permanent || before.failures >= options_.max_attempts || is_dead(earlier)) continue;
    violated_("order: " + id + " is delivered before " + earlier + " of the lane " + told.lane);
  }
}

bool Judge::is_dead(const std::string& id) {
  const std::optional<EventRecord> record = server_.find(id);
  return record && record->row.status == Status::dead;
}

// --- The end ---

void Judge::conclude() {
  for (const auto& [id, told] : events_) {
    const std::optional<EventRecord> record = server_.find(id);
    const bool committed = told.state == State::committed;
    if (!committed && record) violated_("ghost: the table has " + id);
    if (!committed) continue;
    const bool dead = record && record->row.status == Status::dead;
    if (told.successes == 0 && !dead) {
      violated_("lost: " + id + " was committed, and is not delivered; it is " +
                (record ? std::string(to_string(record->row.status)) : "gone"));
    }
    if (!faults_ && told.successes > 1) violated_("repeat: " + id + " without any fault");
    if (!faults_ && dead && told.successes > 0) {
      violated_("dead: " + id + " is DEAD although it was delivered");
    }
  }
}

}  // namespace outbox::simulation
