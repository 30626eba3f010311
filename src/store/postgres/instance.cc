#include "store/postgres/instance.h"

#include <utility>

namespace outbox::postgres {

PostgresInstance::PostgresInstance(const EnvironmentPtr& environment, InstanceOptions options)
    : ServerInstance(environment, std::move(options)) {
  reading().go_by_index_alone();
  marking().go_by_index_alone();
}

}  // namespace outbox::postgres
