// What the programs here describe badly.
#pragma once

#include <string>

#include "outbox/typed/publisher.h"

struct Order {
  std::string id;
  int cents = 0;
};

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners& on);
