// Events to rows and back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "outbox/event.h"
#include "outbox/json_codec.h"
#include "outbox/store.h"
#include "store/common/row_columns.h"
#include "store/mysql/columns.h"
#include "store/mysql/session.h"

namespace outbox::mysql {

// The shard that the table's generated column puts an event into.
int shard_of(const Event& event);

// Inserts the events in the open transaction. Throws MisuseError that names the id if
// one is in the table already.
std::vector<RowRef> insert_rows(Session& session, std::span<const Event> events,
                                const InsertOptions& options);

}  // namespace outbox::mysql
