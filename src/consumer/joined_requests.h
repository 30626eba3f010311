// Who holds which request in a transaction that has not ended: a request for it by
// another transaction waits for that, and a thread must not wait for itself.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "consumer/creation_table.h"
#include "outbox/transaction.h"

namespace outbox::internal {

// Thread-safe.
class JoinedRequests {
 public:
  // Until the transaction has ended, or the savepoint is rolled back that is open now.
  void add(Transaction& tx, const CreationKey& key);

  // Whether this thread holds it in another transaction than the one on `mine`, which may
  // be null.
  bool held_here(const CreationKey& key, const Connection* mine) const;

 private:
  struct Held {
    bool ended = false;  // only its thread looks
  };
  struct Entry {
    std::thread::id thread;
    const Connection* on;
    std::string tenant_id;
    std::string key;
    std::weak_ptr<Held> held;  // the transaction has it
  };

  mutable Mutex mutex_;
  std::vector<Entry> entries_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::internal
