// Which process this is.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "outbox/spi/store.h"

namespace outbox {

// "localhost" if it has none.
std::string host_name();

// The options with a name: host and process, if it was left empty.
InstanceOptions named(InstanceOptions options);

// Unique for every start of every process, or a restarted one would take the
// claims of its former life for its own.
std::string unique_owner(const std::string& name);

// Throws MisuseError in a child that the process `opener` made by fork(): what that
// has open, `what`, does not survive it.
void check_not_forked(pid_t opener, const std::string& what);

// Names this process so that others can tell later whether it still runs.
std::string process_stamp();

// Whether the process with that id and stamp is certainly gone. Only processes of the
// same kernel and pid namespace can be looked for; of others nothing is certain.
bool is_certainly_dead(std::int64_t pid, const std::string& stamp);

}  // namespace outbox
