// Events to rows and back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/mysql/session.h"
#include "outbox/event.h"
#include "outbox/spi/json_codec.h"
#include "outbox/spi/store.h"
#include "store/common/row_columns.h"
#include "store/mysql/columns.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

static_assert(kInlinePayload == 8'192, "kLightColumnNames spells it out");

// Appends the rows `order` of a result of `{light}`, as far as the budget goes; true if it
// ended before them.
bool decode_light_rows(Session& session, const Result& light, std::span<const int> order,
                       ByteBudget& budget, std::vector<Row>& rows);

// The shard that the table's generated column puts an event into.
int shard_of(const Event& event);

// Inserts the events in the open transaction. Throws MisuseError that names the id if
// one is in the table already.
std::vector<RowRef> insert_rows(Session& session, std::span<const Event> events,
                                const InsertOptions& options);

}  // namespace outbox::mysql
