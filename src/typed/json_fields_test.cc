#include "outbox/typed/json_fields.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "outbox/error.h"
#include "typed/domain_event_test_util.h"

namespace fields {
namespace {

using namespace std::chrono_literals;

enum class Level : std::uint8_t { low = 1, high = 7 };
enum class Size { small, big };

constexpr std::string_view outbox_name(Size size) { return size == Size::big ? "big" : "small"; }
constexpr auto describe(outbox::Type<Size>) {
  return outbox::enumeration<Size>().value(Size::small).value(Size::big).value("huge", Size(2));
}

struct Base {
  int inherited = 0;
  friend bool operator==(const Base&, const Base&) = default;
};

struct Everything : Base {
  bool yes = false;
  std::int8_t tiny = 0;
  std::uint8_t byte = 0;
  std::int64_t large = 0;
  std::uint64_t largest = 0;
  double real = 0;
  float single = 0;
  std::string text;
  Level level = Level::low;
  Size size = Size::small;
  outbox::Time when{};
  std::optional<int> maybe;
  std::vector<std::optional<int>> list;
  std::vector<bool> flags;
  std::map<std::string, std::vector<int>> by_name;
  shop::Item item;
  outbox::JsonValue any;

  friend bool operator==(const Everything&, const Everything&) = default;
};

constexpr auto describe(outbox::Type<Everything>) {
  using E = Everything;
  return outbox::object<E>()
      .field("inherited", &E::inherited)
      .field("yes", &E::yes)
      .field("tiny", &E::tiny)
      .field("byte", &E::byte)
      .field("large", &E::large)
      .field("largest", &E::largest)
      .field("real", &E::real)
      .field("single", &E::single)
      .field("text", &E::text)
      .field("level", &E::level)
      .field("size", &E::size)
      .field("when", &E::when)
      .field("maybe", &E::maybe)
      .field("list", &E::list)
      .field("flags", &E::flags)
      .field("by_name", &E::by_name)
      .field("item", &E::item)
      .field("any", &E::any);
}

struct Delivery {
  std::optional<std::string> carrier{};
  friend bool operator==(const Delivery&, const Delivery&) = default;
};
constexpr auto describe(outbox::Type<Delivery>) {
  return outbox::object<Delivery>().field("carrier", &Delivery::carrier, "post");
}

struct Folder {
  std::vector<Folder> folders{};
  outbox::JsonValue note{};
  friend bool operator==(const Folder&, const Folder&) = default;
};
constexpr auto describe(outbox::Type<Folder>) {
  return outbox::object<Folder>().field("folders", &Folder::folders).field("note", &Folder::note);
}

// Folders in each other; each takes two levels, its own and that of the list.
Folder nested(int folders) {
  Folder folder;
  for (int n = 1; n < folders; ++n) {
    Folder outer;
    outer.folders.push_back(std::move(folder));
    folder = std::move(outer);
  }
  return folder;
}

struct Twice {
  int a = 0;
};
constexpr auto describe(outbox::Type<Twice>) {
  return outbox::object<Twice>().field("a", &Twice::a).field("a", &Twice::a);
}

template <class T>
std::string written(const T& object) {
  std::string out;
  outbox::typed::write_fields(out, object, outbox::typed::Place("Thing version 1"));
  return out;
}

template <class T>
T read(std::string_view text) {
  return outbox::typed::read_fields<T>(outbox::JsonValue::parse(text),
                                       outbox::typed::Place("Thing version 1"));
}

Everything full() {
  Everything e;
  e.inherited = 5;
  e.yes = true;
  e.tiny = -128;
  e.byte = 255;
  e.large = std::numeric_limits<std::int64_t>::min();
  e.largest = std::numeric_limits<std::uint64_t>::max();
  e.real = 0.1;
  e.single = 0.1F;
  e.text = "ä\"\n";
  e.level = Level::high;
  e.size = Size::big;
  e.when = outbox::Time{1'709'251'199s + 7us};
  e.maybe = 3;
  e.list = {1, std::nullopt};
  e.flags = {true, false};
  e.by_name = {{"a", {1, 2}}, {"b", {}}};
  e.item = {"tea", 2};
  e.any = outbox::JsonValue::parse(R"({"x":[1.50]})");
  return e;
}

TEST(JsonFields, EveryTypeIsWrittenAsOneWouldExpect) {
  EXPECT_EQ(written(full()),
            R"({"inherited":5,"yes":true,"tiny":-128,"byte":255,"large":-9223372036854775808,)"
            R"("largest":18446744073709551615,"real":0.1,"single":0.1,"text":"ä\"\n","level":7,)"
            R"("size":"big","when":"2024-02-29T23:59:59.000007Z","maybe":3,"list":[1,null],)"
            R"("flags":[true,false],"by_name":{"a":[1,2],"b":[]},"item":{"sku":"tea","count":2},)"
            R"("any":{"x":[1.50]}})");
}

TEST(JsonFields, EveryTypeComesBack) {
  EXPECT_EQ(read<Everything>(written(full())), full());
  EXPECT_EQ(read<Everything>(written(Everything{})), Everything{});
}

TEST(JsonFields, RealNumbersComeBackToTheLastBit) {
  Everything e;
  for (const double real : {5e-324, 1.7976931348623157e308, -0.0, 1.0 / 3, 1e22, 123456789.125}) {
    e.real = real;
    e.single = static_cast<float>(1.0 / 3);
    const Everything back = read<Everything>(written(e));
    EXPECT_EQ(back.real, e.real);
    EXPECT_EQ(std::signbit(back.real), std::signbit(e.real));
    EXPECT_EQ(back.single, e.single);
  }
}

TEST(JsonFields, WhatJsonCannotHoldIsRefusedByName) {
  const auto refused = [](auto change) {
    Everything e;
    change(e);
    return shop::error_of<outbox::MisuseError>([&] { written(e); });
  };
  EXPECT_EQ(refused([](Everything& e) { e.real = std::nan(""); }),
            "Thing version 1: real is nan, JSON has finite numbers only");
  EXPECT_EQ(refused([](Everything& e) { e.item.sku = "a\xFF"; }),
            "Thing version 1: item.sku must be UTF-8, which it is not at byte 1; bytes need "
            ".payload(encode, decode)");
  EXPECT_EQ(refused([](Everything& e) { e.size = static_cast<Size>(9); }),
            "Thing version 1: size is 9, which has no name in the description of its enum");
  EXPECT_NE(refused([](Everything& e) { e.when = outbox::Time::max(); }).find("when is"),
            std::string::npos);
  EXPECT_NE(refused([](Everything& e) { e.any = "\xFF"; }).find("any: "), std::string::npos);
}

TEST(JsonFields, WhatDoesNotFitIsRefusedWithWhatWasFoundAndWanted) {
  struct Bad {
    const char* field;
    const char* value;
    const char* what;
  };
  const Bad table[] = {
      {"yes", "1", "yes: found a number, wanted a boolean"},
      {"tiny", "128", "tiny: found an integer out of range, wanted one from -128 to 127"},
      {"byte", "-1", "byte: found an integer out of range, wanted one from 0 to 255"},
      {"large", "1.0", "large: found a number with a fraction or an exponent, wanted an integer"},
      {"large", "\"1\"", "large: found a string, wanted an integer"},
      {"largest", "18446744073709551616", "wanted one from 0 to 18446744073709551615"},
      {"real", "1e999", "real: found a number that does not fit"},
      {"single", "1e39", "single: found a number that does not fit"},
      {"text", "null", "text: found null, wanted a string"},
      {"level", "256", "level: found an integer out of range, wanted one from 0 to 255"},
      {"size", "\"secret\"",
       "size: found an unknown name, wanted one of \"small\", \"big\", \"huge\""},
      {"when", "\"yesterday\"", "when: found a string that is not a time, wanted a time such as"},
      {"maybe", "\"x\"", "maybe: found a string, wanted an integer"},
      {"list", "[1,2,true]", "list[2]: found a boolean, wanted an integer"},
      {"by_name", R"({"a":[1],"b":[1,{}]})", "by_name.b[1]: found an object, wanted an integer"},
      {"item", R"({"sku":7,"count":1})", "item.sku: found a number, wanted a string"},
      {"item", R"({"sku":"x"})", "item.count: found nothing, wanted an integer; a field that may"},
      {"item", "[]", "item: found an array, wanted an object"},
  };
  for (const Bad& bad : table) {
    outbox::JsonValue value = outbox::JsonValue::parse(written(full()));
    value.set(bad.field, outbox::JsonValue::parse(bad.value));
    const std::string error =
        shop::error_of<outbox::PermanentError>([&] { read<Everything>(value.dump()); });
    EXPECT_NE(error.find(bad.what), std::string::npos) << bad.field << ": " << error;
    EXPECT_TRUE(error.starts_with("Thing version 1: ")) << error;
    EXPECT_EQ(error.find("secret"), std::string::npos) << error;
  }
}

TEST(JsonFields, TheFieldsOfAnotherOrderAndUnknownOnesDoNotMatter) {
  EXPECT_EQ(read<shop::Item>(R"({"new":[1],"count":2,"sku":"tea"})"), (shop::Item{"tea", 2}));
}

TEST(JsonFields, AnEmptyOptionalWithAFallbackComesBackEmpty) {
  EXPECT_EQ(written(Delivery{}), R"({"carrier":null})");
  EXPECT_EQ(read<Delivery>(written(Delivery{})), Delivery{});
  EXPECT_EQ(read<Delivery>("{}"), Delivery{"post"});
  EXPECT_EQ(read<Delivery>(written(Delivery{"ship"})), Delivery{"ship"});
}

TEST(JsonFields, WhatIsTooDeepToBeReadIsNotWritten) {
  EXPECT_EQ(read<Folder>(written(nested(64))), nested(64));
  const std::string error = shop::error_of<outbox::MisuseError>([] { written(nested(65)); });
  EXPECT_TRUE(error.starts_with("Thing version 1: folders[0].folders[0].")) << error;
  EXPECT_TRUE(error.ends_with("is nested deeper than 128 levels, which nobody could read again"))
      << error;

  const auto with_note = [](std::size_t levels) {
    Folder folder;
    for (std::size_t n = 0; n < levels; ++n) {
      folder.note = n % 2 == 0 ? outbox::JsonValue::array({folder.note})
                               : outbox::JsonValue::object({{"in", folder.note}});
    }
    return folder;
  };
  EXPECT_EQ(read<Folder>(written(with_note(127))), with_note(127));
  EXPECT_EQ(shop::error_of<outbox::MisuseError>([&] { written(with_note(128)); }),
            "Thing version 1: note is nested deeper than 128 levels, which nobody could read "
            "again");
}

TEST(JsonFields, AFieldThatIsDescribedTwiceIsRefused) {
  EXPECT_EQ(shop::error_of<outbox::MisuseError>([] { written(Twice{}); }),
            "a description has the name \"a\" twice, the names must differ");
}

TEST(JsonFields, DescriptionsAreMadeByTheCompiler) {
  constexpr auto kDescription = describe(outbox::Type<shop::OrderPlaced>{});
  static_assert(kDescription.version() == 3);
  static_assert(kDescription.name() == "OrderPlaced");
  EXPECT_EQ(kDescription.parts().kCount<outbox::typed::Part::field>, 6U);
}

}  // namespace
}  // namespace fields
