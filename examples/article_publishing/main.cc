// An article is published and changed; search, cache and subscribers hear of it.
//
//   example_article_publishing [folder]      default: a temporary folder
//
// One event, three handlers, each with its own way to do a thing once: the search index keeps
// a copy and takes no older version than it has; dropping a cache entry twice does no harm;
// a notice must not go out twice, so a tracker remembers it. When one handler fails,
// only that one is called again.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>

#include "outbox/consumer/consumption.h"
#include "outbox/consumer/inbox.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "outbox/typed/domain_event.h"
#include "outbox/typed/publisher.h"

namespace {

using namespace std::chrono_literals;

// One string a line, because several workers print side by side.
void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

void expect(bool condition, const std::string& otherwise) {
  if (!condition) throw std::runtime_error(otherwise);
}

struct ArticlePublished {
  std::string article;
  std::int64_t version = 0;
  std::string title;
};
constexpr auto describe(outbox::Type<ArticlePublished>) {
  return outbox::event<ArticlePublished>("ArticlePublished")
      .aggregate("Article", &ArticlePublished::article)
      .aggregate_version(&ArticlePublished::version)
      .field("article", &ArticlePublished::article)
      .field("version", &ArticlePublished::version)
      .field("title", &ArticlePublished::title);
}

// A copy of the articles, in a database of its own.
class Search {
 public:
  explicit Search(const std::filesystem::path& file)
      : store_(outbox::sqlite::open(file.string())), writer_(store_), guard_(store_) {
    store_->connect()->execute("CREATE TABLE articles(id TEXT PRIMARY KEY, title TEXT NOT NULL)",
                               {});
  }

  void index(const ArticlePublished& article) {
    auto tx = writer_.begin();
    if (guard_.advance(tx, "search", "Article", article.article, article.version)) {
      tx.execute("INSERT OR REPLACE INTO articles(id, title) VALUES (?, ?)", article.article,
                 article.title);
    } else {
      say("search: version " + std::to_string(article.version) + " is old news");
    }
    tx.commit();
  }

  std::string title(const std::string& id) {
    const std::vector<outbox::Parameter> values{id};
    return store_->connect()
        ->query("SELECT title FROM articles WHERE id = ?", values)
        .at(0)
        .get<std::string>(0);
  }

 private:
  std::shared_ptr<outbox::Store> store_;
  outbox::Writer writer_;
  outbox::VersionGuard guard_;
};

void run(const std::filesystem::path& folder) {
  Search search{folder / "search.db"};
  std::atomic<int> drops{0};
  std::atomic<int> notices{0};

  const auto tracker = outbox::memory_tracker();
  outbox::Listeners on;
  on.fan_out<ArticlePublished>(
      {outbox::handler<ArticlePublished>(
           "search", [&](const ArticlePublished& article) { search.index(article); }),
       outbox::handler<ArticlePublished>("cache",
                                         [&](const ArticlePublished& article) {
                                           // Away when it is needed first.
                                           if (++drops == 1) {
                                             throw std::runtime_error("the cache does not answer");
                                           }
                                           say("cache: dropped " + article.article);
                                         }),
       outbox::handler("notice",
                       outbox::idempotent(
                           tracker, "notice",
                           outbox::listener<ArticlePublished>([&](const ArticlePublished& article) {
                             ++notices;
                             say("notice: read \"" + article.title + "\"");
                           })))},
      {.retry = std::make_shared<outbox::ExponentialBackoff>(
           outbox::ExponentialBackoffOptions{.base = 10ms})});

  const auto store = outbox::sqlite::open((folder / "articles.db").string());
  outbox::Outbox box{store, on};
  box.start();
  const auto publisher = outbox::transactional_publisher(box.writer());
  std::string first;
  for (const auto& [version, title] : {std::pair{1, "Draft of a theory"}, {2, "A theory"}}) {
    auto tx = box.begin();
    const std::string id = publisher->publish(
        tx, ArticlePublished{.article = "theory", .version = version, .title = title});
    if (version == 1) first = id;
    tx.commit();
  }
  expect(box.wait_idle(20s), "an event was not delivered in time");
  expect(notices == 2, "the retry of the cache repeated a notice");

  // An operator replays the first event: old news to search, no second notice.
  expect(store->admin().replay(first), "the event cannot be replayed");
  box.wake();
  expect(box.wait_idle(20s), "the event was not delivered again in time");
  expect(notices == 2, "a notice went out twice");
  expect(search.title("theory") == "A theory", "search went back to an old version");
  say("search has \"" + search.title("theory") + "\", 2 notices");
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.path());
}
