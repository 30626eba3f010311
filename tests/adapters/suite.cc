// What holds with every client library; each of them instantiates this.
#include <set>

#include "adapters/adapter_test.h"
#include "outbox/consumer/idempotent_create.h"
#include "outbox/consumer/inbox.h"
#include "outbox/memory.h"

namespace outbox::adapters {
namespace {

class PostgresPlace final : public Place {
 public:
  std::shared_ptr<Store> open() override {
    return postgres::open(test::postgres_url(),
                          {.table = schema_.name() + ".outbox_event", .notify = false});
  }
  std::string name() const override { return "outbox"; }

 private:
  const test::Schema schema_;
};

class MysqlPlace final : public Place {
 public:
  std::shared_ptr<Store> open() override { return mysql::open(database_.url()); }
  std::string name() const override { return database_.name(); }

 private:
  const test::Database database_;
};

class SqlitePlace final : public Place {
 public:
  std::shared_ptr<Store> open() override { return sqlite::open(name()); }
  std::string name() const override { return folder_.file("shop.db"); }

 private:
  const testing::TemporaryFolder folder_;
};

// Every setting of the owner's session that changes how values are read or written.
std::vector<std::string> hostile_settings(Dialect dialect) {
  switch (dialect) {
    case Dialect::postgres:
      return {"SET client_encoding = 'LATIN1'",
              "SET TimeZone = 'Asia/Kathmandu'",
              "SET DateStyle = 'SQL, DMY'",
              "SET bytea_output = 'escape'",
              "SET standard_conforming_strings = off",
              "SET escape_string_warning = off"};
    case Dialect::mysql:
      return {"SET NAMES latin1", "SET time_zone = '+05:45'",
              "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"};
    default:
      return {};
  }
}

struct NotingHook final : WriterHook {
  void after_write(std::span<const Written> events) override { note("written", events); }
  void after_commit(std::span<const Written> events) override { note("committed", events); }
  void after_rollback(std::span<const Written> events) override { note("rolled back", events); }
  void outcome_unknown(std::span<const Written> events) override { note("unknown", events); }
  void note(const std::string& what, std::span<const Written> events) {
    for (const Written& written : events) notes.push_back(what + " " + written.event.id());
  }
  std::vector<std::string> notes;
};

constexpr const char* kOddText = "日本 \\ ' \" ? :a $1 {} ñ 😀";

}  // namespace

std::unique_ptr<Place> new_place(Dialect dialect) {
  if (dialect == Dialect::postgres) return std::make_unique<PostgresPlace>();
  if (dialect == Dialect::mysql) return std::make_unique<MysqlPlace>();
  return std::make_unique<SqlitePlace>();
}

void AdapterSuite::SetUp() {
  if (GetParam().dialect == Dialect::postgres) OUTBOX_NEEDS_POSTGRES();
  if (GetParam().dialect == Dialect::mysql) OUTBOX_NEEDS_MYSQL();
  place_ = new_place(GetParam().dialect);
  use(place_->open());
  owner_ = GetParam().connect(*place_);
}

void AdapterSuite::in_transaction(const std::function<void(Connection& mine)>& act) {
  owner_->begin();
  const auto mine = owner_->wrap(*store_);
  act(*mine);
  owner_->commit();
}

TEST_P(AdapterSuite, TheEventLivesAndDiesWithTheOwnersTransaction) {
  owner().begin();
  writer_->write(*owner().wrap(*store_), draft("lost"));
  owner().rollback();
  in_transaction([&](Connection& mine) {
    const WriteToken token = writer_->write(mine, draft("kept"));
    EXPECT_EQ(token.ids(), std::vector<std::string>{"kept"});
    EXPECT_FALSE(store_->admin().find("kept")) << "not committed yet";
  });
  EXPECT_FALSE(store_->admin().find("lost"));
  EXPECT_TRUE(store_->admin().find("kept"));
}

TEST_P(AdapterSuite, OutsideATransactionItFailsAtOnceAlsoForNothing) {
  if (!owner().sees_transaction()) GTEST_SKIP() << "only the library could tell";
  const auto mine = owner().wrap(*store_);
  EXPECT_THROW(writer_->write(*mine, draft("e")), MisuseError);
  EXPECT_THROW(writer_->write_all(*mine, {}), MisuseError);
  Inbox inbox{store_};
  EXPECT_THROW(static_cast<void>(inbox.first(*mine, "group", "e")), MisuseError);
  IdempotentCreate create{*writer_};
  EXPECT_THROW(create.join(*mine, {.key = "k", .body = ""}, [](const NewIds&) { return "r"; }),
               MisuseError);
  EXPECT_EQ(rows(), 0);
}

TEST_P(AdapterSuite, TheTransactionIsItsOwners) {
  in_transaction([&](Connection& mine) {
    EXPECT_TRUE(mine.in_transaction());
    EXPECT_THROW(mine.begin(), MisuseError);
    EXPECT_THROW(mine.commit(), MisuseError);
    EXPECT_THROW(mine.rollback(), MisuseError);
    EXPECT_THROW(mine.savepoint("a"), MisuseError);
    EXPECT_THROW(mine.release("a"), MisuseError);
    EXPECT_THROW(mine.rollback_to("a"), MisuseError);
    EXPECT_THROW(mine.execute("COMMIT", {}), MisuseError);
    writer_->write(mine, draft("e"));
  });
  EXPECT_EQ(rows(), 1);
}

TEST_P(AdapterSuite, AnEventInsideARolledBackSavepointIsGoneAndTheOthersStay) {
  in_transaction([&](Connection& mine) {
    writer_->write(mine, draft("before"));
    owner().run("SAVEPOINT part");
    writer_->write(mine, draft("inside"));
    owner().run("ROLLBACK TO SAVEPOINT part");
    writer_->write(mine, draft("after"));
  });
  EXPECT_FALSE(store_->admin().find("inside"));
  EXPECT_EQ(rows(), 2);
}

TEST_P(AdapterSuite, HooksHearOfTheEndThatTheTokenIsToldAndOnce) {
  const auto hook = std::make_shared<NotingHook>();
  Writer writer(store_, {.hooks = {hook}});
  const auto write = [&](const std::string& id) {
    return writer.write(*owner().wrap(*store_), draft(id));
  };
  owner().begin();
  WriteToken kept = write("kept");
  owner().commit();
  kept.committed();
  kept.committed();
  kept.rolled_back();
  owner().begin();
  WriteToken lost = write("lost");
  owner().rollback();
  lost.rolled_back();
  lost.rolled_back();
  lost.committed();
  owner().begin();
  static_cast<void>(write("untold"));
  owner().commit();
  EXPECT_EQ(hook->notes, (std::vector<std::string>{"written kept", "committed kept", "written lost",
                                                   "rolled back lost", "written untold"}));
}

TEST_P(AdapterSuite, BytesAndTimesAreTheSameWhateverTheOwnersSettings) {
  const Payload payloads[] = {json(R"({"a":"ü\\ \u20ac 日本 😀 \" ' ? :b $1 {,}"})"),
                              bytes(std::string("\0\xff\x80 \\ '\"{,}?", 12)), bytes("")};
  in_transaction([&](Connection& mine) {
    for (const std::string& setting : hostile_settings(GetParam().dialect)) owner().run(setting);
    std::vector<Draft> together;
    for (int i = 0; i < 3; ++i) {
      writer_->write(mine, odd_draft(std::to_string(i), payloads[i]));
      together.push_back(odd_draft("together" + std::to_string(i), payloads[i]));
    }
    writer_->write_all(mine, std::move(together));
  });
  for (int i = 0; i < 3; ++i) {
    expect_odd(std::to_string(i), payloads[i]);
    expect_odd("together" + std::to_string(i), payloads[i]);
  }
}

TEST_P(AdapterSuite, ManyEventsKeepTheirOrderAndTheirDelay) {
  std::vector<Draft> drafts;
  for (int i = 0; i < 1'203; ++i) drafts.push_back(draft(std::to_string(i)));
  drafts.back().deliver_after = std::chrono::hours{1};
  in_transaction([&](Connection& mine) { writer_->write_all(mine, std::move(drafts)); });
  EXPECT_EQ(rows(), 1203);
  EXPECT_EQ(store_->admin().list({}, 0, 3).at(2).row.event.id(), "2");
  EXPECT_LT(store_->admin().find("1202")->hold, 0);
  EXPECT_EQ(store_->admin().find("1201")->hold, 0);
}

TEST_P(AdapterSuite, TheAddressesAreThoseOfTheRows) {
  const Event events[] = {make_event(draft("1")), make_event(draft("2"))};
  std::vector<RowRef> refs;
  in_transaction([&](Connection& mine) { refs = mine.insert(events, {}); });
  for (std::size_t i = 0; i < 2; ++i) {
    const auto found = store_->admin().find(events[i].id());
    EXPECT_EQ(found->row.ref.seq, refs.at(i).seq);
    EXPECT_EQ(found->row.ref.shard, refs.at(i).shard);
  }
}

TEST_P(AdapterSuite, StatementsTakeAndGiveValuesOfEveryKind) {
  const std::string bytes_type = GetParam().dialect == Dialect::postgres ? "bytea" : "blob";
  in_transaction([&](Connection& mine) {
    owner().run("CREATE TEMPORARY TABLE note (id bigint, label varchar(200), data " + bytes_type +
                ", rate double precision)");
    const Blob data{std::string("\0\xff'\\?", 5)};
    const std::vector<Parameter> values{-7, kOddText, data, 0.5};
    EXPECT_EQ(mine.execute("INSERT INTO note VALUES (?, ?, ?, ?)", values), 1);
    EXPECT_EQ(mine.execute("INSERT INTO note VALUES (?, ?, ?, ?)",
                           std::vector<Parameter>{8, nullptr, nullptr, nullptr}),
              1);
    const auto found =
        mine.query("SELECT id, label, rate FROM note WHERE label = ? AND data = ? AND id < ?",
                   std::vector<Parameter>{kOddText, data, 0});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].get<int>(0), -7);
    EXPECT_EQ(found[0].get<std::string>(1), kOddText);
    EXPECT_EQ(found[0].get<double>(2), 0.5);
    const auto none = mine.query("SELECT label FROM note WHERE id = 8 AND '?' <> \n-- ?\n ?",
                                 std::vector<Parameter>{"x"});
    ASSERT_EQ(none.size(), 1U);
    EXPECT_EQ(none[0].get<std::optional<std::string>>(0), std::nullopt);
    EXPECT_EQ(mine.execute("UPDATE note SET rate = ?", std::vector<Parameter>{-1}), 2);
  });
}

TEST_P(AdapterSuite, TheInboxKnowsWhatWasCommittedAndForgetsWhatWasNot) {
  Inbox inbox{store_};
  const auto first = [&] { return inbox.first(*owner().wrap(*store_), "grüppe", kOddText); };
  owner().begin();
  EXPECT_TRUE(first());
  owner().rollback();
  owner().begin();
  EXPECT_TRUE(first());
  EXPECT_FALSE(first());
  owner().commit();
  owner().begin();
  EXPECT_FALSE(first());
  owner().commit();
}

TEST_P(AdapterSuite, TheVersionGuardLetsOnlyNewerVersionsThrough) {
  VersionGuard guard{store_};
  in_transaction([&](Connection& mine) {
    EXPECT_TRUE(guard.advance(mine, "search", "Article", kOddText, -5));
    EXPECT_FALSE(guard.advance(mine, "search", "Article", kOddText, -5));
  });
  in_transaction([&](Connection& mine) {
    EXPECT_FALSE(guard.advance(mine, "search", "Article", kOddText, -6));
    EXPECT_TRUE(guard.advance(mine, "search", "Article", kOddText, 7));
  });
}

TEST_P(AdapterSuite, ACreationHappensOnceAndWithItsTransaction) {
  IdempotentCreate create{*writer_, {.public_id_prefix = "ord"}};
  const CreateRequest request{.tenant_id = "ñ", .key = kOddText, .body = "a body"};
  const auto join = [&](Connection& mine, const CreateRequest& wanted) {
    return create.join(mine, wanted, [&](const NewIds& ids) {
      writer_->write(mine, draft(ids.internal_id));
      return ids.public_id + kOddText;
    });
  };
  owner().begin();
  EXPECT_TRUE(join(*owner().wrap(*store_), request).created());
  owner().rollback();
  EXPECT_EQ(rows(), 0);

  Creation<> made;
  in_transaction([&](Connection& mine) { made = join(mine, request); });
  EXPECT_TRUE(made.created());
  in_transaction([&](Connection& mine) {
    const Creation<> again = join(mine, request);
    EXPECT_TRUE(again.repeated());
    EXPECT_EQ(again.result, made.result);
    EXPECT_EQ(again.ids.public_id, made.ids.public_id);
  });
  EXPECT_EQ(rows(), 1);

  CreateRequest other = request;
  other.body = "another";
  owner().begin();
  EXPECT_THROW(join(*owner().wrap(*store_), other), KeyReusedError);
  owner().rollback();
}

TEST_P(AdapterSuite, AfterWorkThatFailedAndARollbackTheNextCallCreates) {
  IdempotentCreate create{*writer_};
  const CreateRequest request{.key = "k", .body = ""};
  owner().begin();
  EXPECT_THROW(create.join(*owner().wrap(*store_), request,
                           [](const NewIds&) -> std::string { throw std::runtime_error("no"); }),
               std::runtime_error);
  owner().rollback();
  in_transaction([&](Connection& mine) {
    EXPECT_TRUE(create.join(mine, request, [](const NewIds&) { return "r"; }).created());
  });
}

TEST_P(AdapterSuite, AStoreOfAnotherKindIsRefused) {
  owner().begin();
  EXPECT_THROW(owner().wrap(*memory::open()), MisuseError);
  owner().rollback();
}

}  // namespace outbox::adapters
