#include "outbox/admin/admin.h"

#include <gtest/gtest.h>

#include <string>

#include "outbox/error.h"

namespace outbox {
namespace {

template <class Call>
std::string refusal(Call call) {
  Admin left_out;
  try {
    call(left_out);
  } catch (const MisuseError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Admin, WhatADriverLeavesOutIsRefusedByName) {
  EXPECT_EQ(refusal([](Admin& admin) { admin.list({}, 0, 1); }),
            "this store does not support listing events: it does not implement Admin::list()");
  EXPECT_EQ(refusal([](Admin& admin) { admin.find("1"); }),
            "this store does not support finding an event: it does not implement Admin::find()");
  EXPECT_EQ(refusal([](Admin& admin) { admin.count({}); }),
            "this store does not support counting events: it does not implement Admin::count()");
  EXPECT_EQ(refusal([](Admin& admin) { admin.dead_groups({}, 1); }),
            "this store does not support grouping dead events: it does not implement "
            "Admin::dead_groups()");
  EXPECT_EQ(refusal([](Admin& admin) { admin.held_aggregates(1); }),
            "this store does not support listing held aggregates: it does not implement "
            "Admin::held_aggregates()");
  EXPECT_EQ(refusal([](Admin& admin) { admin.members(); }),
            "this store does not support listing its instances: it does not implement "
            "Admin::members()");
  EXPECT_EQ(refusal([](Admin& admin) { admin.count_purgeable(Purgeable::done, {}); }),
            "this store does not support counting events to purge: it does not implement "
            "Admin::count_purgeable()");
}

TEST(Admin, WhatADriverLeavesOutChangesNothingInSilence) {
  const std::string replay =
      "this store does not support replaying events: it does not implement Admin::replay()";
  EXPECT_EQ(refusal([](Admin& admin) { admin.replay("1"); }), replay);
  EXPECT_EQ(refusal([](Admin& admin) { admin.replay({}, 0, 1); }), replay);
  const std::string discard =
      "this store does not support discarding events: it does not implement Admin::discard()";
  EXPECT_EQ(refusal([](Admin& admin) { admin.discard("1"); }), discard);
  EXPECT_EQ(refusal([](Admin& admin) { admin.discard({}, 0, 1); }), discard);
  EXPECT_EQ(refusal([](Admin& admin) { admin.purge(Purgeable::done, {}, 0, 1, false); }),
            "this store does not support purging events: it does not implement Admin::purge()");
}

}  // namespace
}  // namespace outbox
