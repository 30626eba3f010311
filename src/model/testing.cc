#include "outbox/testing.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace outbox::testing {

// --- ManualClock ---

ManualClock::ManualClock(Time start) : now_(start) {}

Time ManualClock::now() const {
  std::lock_guard lock(mutex_);
  return now_;
}

Clock::Steady ManualClock::steady() const {
  std::lock_guard lock(mutex_);
  return steady_;
}

void ManualClock::advance(std::chrono::microseconds by) {
  std::lock_guard lock(mutex_);
  now_ += by;
  steady_ += by;
}

void ManualClock::step(std::chrono::microseconds by) {
  std::lock_guard lock(mutex_);
  now_ += by;
}

// --- Signal ---

void Signal::raise() {
  // Notifies with the lock held: a test that was woken may destroy the signal.
  std::lock_guard lock(mutex_);
  ++count_;
  raised_.notify_all();
}

bool Signal::wait(std::size_t times, std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  return raised_.wait_for(lock, deadline, [&] { return count_ >= times; });
}

std::size_t Signal::count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

// --- RecordingListener ---

RecordingListener::RecordingListener(std::function<Outcome(const Event&, const Delivery&)> answer)
    : answer_(std::move(answer)) {}

Outcome RecordingListener::on_event(const Event& event, const Delivery& delivery) {
  {
    std::lock_guard lock(mutex_);
    calls_.push_back({event, delivery.attempt});
    called_.notify_all();
  }
  return answer_ ? answer_(event, delivery) : Outcome::done();
}

bool RecordingListener::wait_for(std::size_t calls, std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  return called_.wait_for(lock, deadline, [&] { return calls_.size() >= calls; });
}

std::vector<RecordingListener::Call> RecordingListener::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

std::vector<std::string> RecordingListener::ids() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const Call& call : calls_) ids.push_back(call.event.id());
  return ids;
}

std::vector<std::string> RecordingListener::payloads() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> payloads;
  for (const Call& call : calls_) payloads.push_back(call.event.payload());
  return payloads;
}

std::size_t RecordingListener::count() const {
  std::lock_guard lock(mutex_);
  return calls_.size();
}

// --- TemporaryFolder ---

TemporaryFolder::TemporaryFolder()
    : path_(std::filesystem::temp_directory_path() / ("outbox-" + new_id())) {
  std::filesystem::create_directory(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::file(const std::string& name) const { return (path_ / name).string(); }

// --- RecordingLog ---

struct RecordingLog::State {
  mutable std::mutex mutex;
  std::vector<Line> lines;
};

RecordingLog::RecordingLog() : state_(std::make_shared<State>()) {}

Logger RecordingLog::log() const {
  return [state = state_](const LogRecord& record) {
    std::lock_guard lock(state->mutex);
    state->lines.push_back({record.level, std::string(record.code), std::string(record.message)});
  };
}

std::vector<RecordingLog::Line> RecordingLog::lines() const {
  std::lock_guard lock(state_->mutex);
  return state_->lines;
}

bool RecordingLog::contains(const std::string& text) const {
  const std::vector<Line> all = lines();
  return std::any_of(all.begin(), all.end(),
                     [&](const Line& line) { return line.text.find(text) != std::string::npos; });
}

}  // namespace outbox::testing
