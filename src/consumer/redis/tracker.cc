#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/url.h"
#include "client/redis/connection.h"
#include "consumer/tracker_rules.h"
#include "outbox/consumer/redis.h"
#include "outbox/error.h"

namespace outbox::redis {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// What the tracker does on the server. Each script runs as a whole, on one key: a hash of
//
//   state   busy, idle (it was abandoned) or done
//   fence   of the last consumer that began
//   owner   busy: which call of start() it was
//   until   busy: the end of the lease, in microseconds since 1970
//
// which is forgotten when the retention has passed since it was last written.

// ARGV: lease and retention in milliseconds, owner. Answers {0: started, 1: in progress,
// 2: done; fence; microseconds until the lease is over}.
//
// A call that is repeated because its answer was lost finds itself the owner.
// Fences are times, so that they grow also for an event that was forgotten.
constexpr std::string_view kStart = R"lua(
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local state, fence, owner, lease_end =
  unpack(redis.call('HMGET', KEYS[1], 'state', 'fence', 'owner', 'until'))
if state == 'done' then
  return {2, 0, 0}
end
local is_ours = state == 'busy' and owner == ARGV[3]
if state == 'busy' and not is_ours and tonumber(lease_end) > now then
  return {1, 0, tonumber(lease_end) - now}
end
if not is_ours then
  fence = string.format('%.0f', math.max(now, (tonumber(fence or 0)) + 1))
end
redis.call('HSET', KEYS[1], 'state', 'busy', 'fence', fence, 'owner', ARGV[3],
  'until', string.format('%.0f', now + tonumber(ARGV[1]) * 1000))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {0, tonumber(fence), 0}
)lua";

// ARGV: fence, retention in milliseconds. Answers 1, or 0 if another one has begun since.
//
// An event that was forgotten is recorded all the same: its effect has happened.
constexpr std::string_view kFinish = R"lua(
local fence = redis.call('HMGET', KEYS[1], 'fence')[1]
if fence and fence ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'done', 'fence', ARGV[1])
redis.call('HDEL', KEYS[1], 'owner', 'until')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
)lua";

// The same arguments and answers.
constexpr std::string_view kAbandon = R"lua(
local state, fence = unpack(redis.call('HMGET', KEYS[1], 'state', 'fence'))
if not fence then
  return 1
end
if fence ~= ARGV[1] or state == 'done' then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'idle')
redis.call('HDEL', KEYS[1], 'owner', 'until')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
)lua";

void check_prefix(const std::string& prefix) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/";
  constexpr std::size_t kLongest = 64;
  if (!prefix.empty() && prefix.size() <= kLongest &&
      prefix.find_first_not_of(kAllowed) == prefix.npos) {
    return;
  }
  throw MisuseError("redis::Options::prefix is " + quote(prefix) +
                    ", 1 to 64 letters, digits, '_', '-', '.', ':' and '/' are possible");
}

class Tracker final : public ConsumptionTracker {
 public:
  Tracker(ConnectOptions target, TrackerOptions tracking, Options options)
      : prefix_(std::move(options.prefix)),
        lease_(std::to_string(tracking.lease.count())),
        retention_(std::to_string(milliseconds(tracking.retention).count())),
        client_(std::move(target),
                {.connections = options.connections,
                 .wait_timeout = options.wait_timeout,
                 .timeouts = {.connect = options.connect_timeout, .answer = options.timeout},
                 .tls = {.ca_file = std::move(options.tls.ca_file),
                         .certificate_file = std::move(options.tls.certificate_file),
                         .key_file = std::move(options.tls.key_file),
                         .verify = options.tls.verify},
                 .log = std::move(options.log)}) {}

  Start start(std::string_view group, std::string_view event_id) override {
    const std::string key = key_of(group, event_id);
    std::string owner = lost_starts_.take(key);
    try {
      return read_start(*run(start_, key, {lease_, retention_, owner}));
    } catch (...) {
      lost_starts_.put(key, std::move(owner));
      throw;
    }
  }

  bool finish(std::string_view group, std::string_view event_id, std::int64_t fence) override {
    return end(finish_, key_of(group, event_id), fence);
  }
  bool abandon(std::string_view group, std::string_view event_id, std::int64_t fence) override {
    return end(abandon_, key_of(group, event_id), fence);
  }

 private:
  std::string key_of(std::string_view group, std::string_view event_id) const {
    internal::check_consumed_event(group, event_id);
    // No two pairs have the same: neither : nor } stays in what is encoded.
    return prefix_ + ":{" + percent_encoded(group) + ':' + percent_encoded(event_id) + '}';
  }

  // Again on another connection if this one turns out to be dead: every script may be
  // repeated.
  ReplyHandle run(Script& script, std::string_view key,
                  const std::vector<std::string_view>& arguments) {
    for (bool again = false;; again = true) {
      const Client::Handle connection = client_.take();
      try {
        return script.run(*connection, key, arguments);
      } catch (const UnavailableError&) {
        if (again || !connection->lost() || connection->timed_out()) throw;
      }
    }
  }

  bool end(Script& script, const std::string& key, std::int64_t fence) {
    const ReplyHandle reply = run(script, key, {std::to_string(fence), retention_});
    if (reply->type != REDIS_REPLY_INTEGER) refuse_answer();
    return reply->integer == 1;
  }

  Start read_start(const redisReply& reply) const {
    constexpr std::size_t kNumbers = 3;
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements != kNumbers) refuse_answer();
    long long numbers[kNumbers] = {};
    for (std::size_t i = 0; i < kNumbers; ++i) {
      if (reply.element[i]->type != REDIS_REPLY_INTEGER) refuse_answer();
      numbers[i] = reply.element[i]->integer;
    }
    switch (numbers[0]) {
      case 0:
        return {.state = State::started, .fence = numbers[1]};
      case 1:
        return {.state = State::in_progress,
                .expires_in = std::chrono::ceil<milliseconds>(microseconds{numbers[2]})};
      case 2:
        return {.state = State::done};
      default:
        refuse_answer();
    }
  }

  [[noreturn]] void refuse_answer() const {
    throw PermanentError("Redis (" + client_.place() +
                         ") gave an answer that the tracker cannot read");
  }

  // Constant after construction.
  const std::string prefix_;
  const std::string lease_;
  const std::string retention_;

  Client client_;
  internal::LostStarts lost_starts_;
  Script start_{kStart};
  Script finish_{kFinish};
  Script abandon_{kAbandon};
};

}  // namespace

std::shared_ptr<ConsumptionTracker> tracker(const std::string& url, TrackerOptions tracking,
                                            Options options) {
  internal::check_tracker_options(tracking);
  check_prefix(options.prefix);
  if (!options.log) options.log = standard_error_log();
  return std::make_shared<Tracker>(ConnectOptions::parse(url), tracking, std::move(options));
}

}  // namespace outbox::redis
