#include "client/redis/script.h"

#include "outbox/error.h"

namespace outbox::redis {
namespace {

ReplyHandle call(Connection& connection, std::string_view how, std::string_view script,
                 std::string_view key, const std::vector<std::string_view>& arguments) {
  std::vector<std::string_view> words{how, script, "1", key};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return connection.try_command(words);
}

bool is_error(const redisReply& reply) { return reply.type == REDIS_REPLY_ERROR; }
std::string_view text_of(const redisReply& reply) { return {reply.str, reply.len}; }

}  // namespace

ReplyHandle Script::run(Connection& connection, std::string_view key,
                        const std::vector<std::string_view>& arguments) {
  ReplyHandle reply = call(connection, "EVALSHA", digest(connection), key, arguments);
  // A server that was restarted, or another one.
  if (is_error(*reply) && error_code(text_of(*reply)) == "NOSCRIPT") {
    reply = call(connection, "EVAL", text_, key, arguments);
  }
  if (is_error(*reply)) connection.refuse(text_of(*reply));
  return reply;
}

std::string Script::digest(Connection& connection) {
  {
    MutexLock lock(mutex_);
    if (!digest_.empty()) return digest_;
  }
  // The server's arithmetic, so that none of our own is needed; the same for each.
  const ReplyHandle reply = connection.command({"SCRIPT", "LOAD", text_});
  if (reply->type != REDIS_REPLY_STRING) {
    throw PermanentError("Redis (" + connection.place() + ") does not say how it calls a script");
  }
  MutexLock lock(mutex_);
  return digest_ = std::string(text_of(*reply));
}

}  // namespace outbox::redis
