// What the tracker does on the server. Each script runs as a whole, on one key: a hash of
//
//   state   busy, idle (it was abandoned) or done
//   fence   of the last consumer that began
//   owner   busy: which call of start() it was
//   until   busy: the end of the lease, in microseconds since 1970
//
// which is forgotten when the retention has passed since it was last written.
#pragma once

#include <string_view>

namespace outbox::redis {

// ARGV: lease and retention in milliseconds, owner. Answers {0: started, 1: in progress,
// 2: done; fence; microseconds until the lease is over}.
//
// A call that is repeated because its answer was lost finds itself the owner.
// Fences are times, so that they grow also for an event that was forgotten.
inline constexpr std::string_view kStart = R"lua(
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
inline constexpr std::string_view kFinish = R"lua(
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
inline constexpr std::string_view kAbandon = R"lua(
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

}  // namespace outbox::redis
