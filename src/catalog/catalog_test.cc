#include "catalog/catalog.h"

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CatalogEntry Base(const std::string& name) { return {.name = name, .root = "/models/" + name}; }

CatalogEntry Adapter(const std::string& name, int32_t id) {
  return {.name = name, .adapter = AdapterId(id), .parent = "base", .root = "/adapters/" + name};
}

Catalog Make(std::vector<CatalogEntry> entries) {
  auto catalog = Catalog::Create(std::move(entries));
  EXPECT_TRUE(catalog.ok()) << catalog.status();
  return *std::move(catalog);
}

TEST(Catalog, NamesAreCheckedCharacterByCharacter) {
  for (const char* name : {"a", "7b", "tenant/sql-lora@v2", "meta-llama/Llama-3.2-1B", "a:b.c_d"}) {
    EXPECT_TRUE(IsValidName(name)) << name;
  }
  for (const char* name : {"", "-a", ".hidden", "/etc/passwd", "@x", "a b", "a,b", "a\"b", "a\\b",
                           "a\n", "\xC3\xA9", "a?b", "a{}"}) {
    EXPECT_FALSE(IsValidName(name)) << name;
  }
  EXPECT_TRUE(IsValidName(std::string(128, 'x')));
  EXPECT_FALSE(IsValidName(std::string(129, 'x')));
  EXPECT_FALSE(IsValidName(std::string_view("a\0b", 3)));
}

TEST(Catalog, ResolvesNamesToEntries) {
  const Catalog catalog = Make({Adapter("sql", 1), Base("base"), Adapter("chat", 0)});
  ASSERT_NE(catalog.Resolve("default", "sql"), nullptr);
  EXPECT_EQ(catalog.Resolve("default", "sql")->adapter, AdapterId(1));
  EXPECT_EQ(catalog.Resolve("default", "sql")->root, "/adapters/sql");
  EXPECT_EQ(catalog.Resolve("default", "base")->adapter, kBaseModel);
  EXPECT_EQ(catalog.Resolve("default", "SQL"), nullptr);
  EXPECT_EQ(catalog.Resolve("default", ""), nullptr);
}

TEST(Catalog, ListsBaseModelsFirstThenByName) {
  const Catalog catalog =
      Make({Adapter("b", 1), Base("zz"), Adapter("c", 2), Adapter("a", 0), Base("base")});
  std::vector<std::string> names;
  for (const CatalogEntry* entry : catalog.List("default")) names.push_back(entry->name);
  EXPECT_THAT(names, ElementsAre("base", "zz", "a", "b", "c"));
}

TEST(Catalog, NamesModelsForMetrics) {
  const Catalog catalog = Make({Base("base"), Adapter("two", 7), Adapter("one", 7)});
  EXPECT_EQ(catalog.NameOf(AdapterId(7)), "one");
  EXPECT_EQ(catalog.NameOf(AdapterId(8)), "");
  EXPECT_EQ(catalog.NameOf(kBaseModel), "base");
}

TEST(Catalog, PointersSurviveAMove) {
  Catalog catalog = Make({Base("base"), Adapter("a", 0)});
  const Catalog moved = std::move(catalog);
  EXPECT_EQ(moved.Resolve("default", "a")->name, "a");
  EXPECT_EQ(moved.NameOf(AdapterId(0)), "a");
}

TEST(Catalog, RefusesBadEntries) {
  const auto error = [](std::vector<CatalogEntry> entries) {
    return Message(Catalog::Create(std::move(entries)).status());
  };
  EXPECT_THAT(error({Base("a"), Adapter("a", 0)}), HasSubstr(R"("a" is given twice)"));
  EXPECT_THAT(error({Base("a,b")}), HasSubstr(R"(model name "a,b" must be 1 to 128)"));
  EXPECT_THAT(error({Base(std::string(100000, 'x'))}), HasSubstr("must be"));
  EXPECT_THAT(error({{.name = "a", .adapter = AdapterId(0)}}), HasSubstr("without a parent"));
  EXPECT_THAT(error({{.name = "a", .parent = "b"}}), HasSubstr("a base model with a parent"));
}

TEST(Catalog, ThousandsOfAdapters) {
  std::vector<CatalogEntry> entries = {Base("base")};
  for (int32_t i = 0; i < 5000; ++i) entries.push_back(Adapter(StrCat("adapter-", i), i));
  const Catalog catalog = Make(std::move(entries));
  for (int32_t i = 0; i < 5000; ++i) {
    const std::string name = StrCat("adapter-", i);
    ASSERT_EQ(catalog.Resolve("default", name)->adapter, AdapterId(i));
    ASSERT_EQ(catalog.NameOf(AdapterId(i)), name);
  }
}

}  // namespace
}  // namespace aril
