// hiredis, which is only asked to encode commands and decode replies: its handles in typed
// holders, and what the server's errors mean.
#pragma once

#include <hiredis/hiredis.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/handle.h"

namespace outbox::redis {

using ReaderHandle = std::unique_ptr<redisReader, Destroyer<redisReaderFree>>;
using ReplyHandle = std::unique_ptr<redisReply, Destroyer<freeReplyObject>>;

// The word that an error begins with: READONLY, WRONGPASS, ERR. Of an error in a script,
// that of the command that failed.
std::string_view error_code(std::string_view error);

// For messages: on one line, and without the arguments that a server may repeat.
std::string error_text(std::string_view error);

// Throws what the server's error means for the caller: UnavailableError or
// PermanentError. `where` names the server.
[[noreturn]] void throw_error(std::string_view error, std::string_view where);

}  // namespace outbox::redis
