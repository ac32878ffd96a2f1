#include "catalog/catalog.h"

#include <thread>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CatalogEntry Base(const std::string& name) {
  return {.name = name, .parent = "", .root = "/models/" + name, .generation = nullptr};
}

std::shared_ptr<const Generation> MakeGeneration(int32_t id,
                                                 std::function<void()> release = nullptr) {
  return std::make_shared<const Generation>(Generation::Description{.adapter = AdapterId(id)},
                                            std::move(release));
}

CatalogEntry Adapter(const std::string& name, int32_t id, std::function<void()> release = nullptr) {
  return {.name = name,
          .parent = "base",
          .root = "/adapters/" + name,
          .generation = MakeGeneration(id, std::move(release))};
}

std::shared_ptr<Catalog> Make(std::vector<CatalogEntry> entries) {
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
  const auto catalog = Make({Adapter("sql", 1), Base("base"), Adapter("chat", 0)});
  ASSERT_NE(catalog->Resolve("default", "sql"), nullptr);
  EXPECT_EQ(catalog->Resolve("default", "sql")->adapter(), AdapterId(1));
  EXPECT_EQ(catalog->Resolve("default", "sql")->root, "/adapters/sql");
  EXPECT_EQ(catalog->Resolve("default", "base")->adapter(), kBaseModel);
  EXPECT_EQ(catalog->Resolve("default", "SQL"), nullptr);
  EXPECT_EQ(catalog->Resolve("default", ""), nullptr);
  EXPECT_EQ(catalog->num_adapters(), 2);
}

TEST(Catalog, ListsBaseModelsFirstThenByName) {
  const auto catalog =
      Make({Adapter("b", 1), Base("zz"), Adapter("c", 2), Adapter("a", 0), Base("base")});
  EXPECT_EQ(catalog->base_name(), "zz") << "as the operator ordered them";
  std::vector<std::string> names;
  for (const CatalogEntryPtr& entry : catalog->List("default")) names.push_back(entry->name);
  EXPECT_THAT(names, ElementsAre("base", "zz", "a", "b", "c"));
}

TEST(Catalog, NamesModelsForMetrics) {
  const auto catalog = Make({Base("base"), Adapter("one", 7), Adapter("two", 7)});
  EXPECT_EQ(catalog->NameOf(AdapterId(7)), "one");
  EXPECT_EQ(catalog->NameOf(AdapterId(8)), "");
  EXPECT_EQ(catalog->NameOf(kBaseModel), "base");
  ASSERT_TRUE(catalog->Remove("one").ok());
  EXPECT_EQ(catalog->NameOf(AdapterId(7)), "two");
}

TEST(Catalog, RefusesBadEntries) {
  const auto error = [](std::vector<CatalogEntry> entries) {
    return Message(Catalog::Create(std::move(entries)).status());
  };
  EXPECT_THAT(error({Base("a"), Adapter("a", 0)}), HasSubstr(R"("a" is given twice)"));
  EXPECT_THAT(error({Base("a,b")}), HasSubstr(R"(model name "a,b" must be 1 to 128)"));
  EXPECT_THAT(error({Base(std::string(100000, 'x'))}), HasSubstr("must be"));
  CatalogEntry entry = Adapter("a", 0);
  entry.parent = "";
  EXPECT_THAT(error({entry}), HasSubstr("without a parent"));
  entry = Base("a");
  entry.parent = "b";
  EXPECT_THAT(error({entry}), HasSubstr("a base model with a parent"));
}

TEST(Catalog, AddsWhatIsNewAndReplacesOnlyIfAsked) {
  const auto catalog = Make({Base("base"), Adapter("a", 0)});
  ASSERT_TRUE(catalog->Add(Adapter("b", 1), Catalog::IfTaken::kRefuse).ok());
  EXPECT_EQ(catalog->num_adapters(), 2);
  EXPECT_EQ(catalog->Add(Adapter("a", 2), Catalog::IfTaken::kRefuse).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(catalog->Resolve("default", "a")->adapter(), AdapterId(0));
  ASSERT_TRUE(catalog->Add(Adapter("a", 2), Catalog::IfTaken::kReplace).ok());
  EXPECT_EQ(catalog->Resolve("default", "a")->adapter(), AdapterId(2));
  EXPECT_EQ(catalog->num_adapters(), 2);
  for (const auto if_taken : {Catalog::IfTaken::kRefuse, Catalog::IfTaken::kReplace}) {
    EXPECT_THAT(Message(catalog->Add(Adapter("base", 3), if_taken)),
                HasSubstr("is a name of the base model"));
    EXPECT_THAT(Message(catalog->Add(Adapter("a b", 3), if_taken)), HasSubstr("must be 1 to 128"));
    EXPECT_FALSE(catalog->Add(Base("other"), if_taken).ok());
  }
}

TEST(Catalog, RemovesAdaptersOnly) {
  const auto catalog = Make({Base("base"), Adapter("a", 0)});
  EXPECT_EQ(catalog->Remove("base").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(catalog->Remove("b").code(), StatusCode::kNotFound);
  EXPECT_TRUE(catalog->Remove("a").ok());
  EXPECT_EQ(catalog->Resolve("default", "a"), nullptr);
  EXPECT_EQ(catalog->Remove("a").code(), StatusCode::kNotFound);
}

TEST(Catalog, AGenerationStaysAsLongAsSomebodyUsesIt) {
  int released = 0;
  const auto catalog = Make({Base("base"), Adapter("a", 0, [&] { ++released; })});
  CatalogEntryPtr in_use = catalog->Resolve("default", "a");
  ASSERT_TRUE(catalog->Add(Adapter("a", 1), Catalog::IfTaken::kReplace).ok());
  EXPECT_EQ(catalog->Resolve("default", "a")->adapter(), AdapterId(1));
  EXPECT_EQ(in_use->adapter(), AdapterId(0));
  EXPECT_EQ(catalog->NameOf(AdapterId(0)), "a") << "still used, still shown";
  EXPECT_EQ(released, 0);
  in_use = nullptr;
  EXPECT_EQ(released, 1);
  EXPECT_EQ(catalog->NameOf(AdapterId(0)), "");
}

TEST(Catalog, TheReleaseMayUseTheCatalog) {
  const auto catalog = Make({Base("base")});
  std::string name = "?";
  ASSERT_TRUE(catalog
                  ->Add(Adapter("a", 0, [&] { name = catalog->NameOf(AdapterId(0)); }),
                        Catalog::IfTaken::kRefuse)
                  .ok());
  ASSERT_TRUE(catalog->Remove("a").ok());
  EXPECT_EQ(name, "");
}

TEST(Catalog, ThousandsOfAdapters) {
  std::vector<CatalogEntry> entries = {Base("base")};
  for (int32_t i = 0; i < 5000; ++i) entries.push_back(Adapter(StrCat("adapter-", i), i));
  const auto catalog = Make(std::move(entries));
  // All of them move, and what they left is forgotten on the way.
  for (int32_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(
        catalog->Add(Adapter(StrCat("adapter-", i), 5000 + i), Catalog::IfTaken::kReplace).ok());
  }
  for (int32_t i = 0; i < 5000; ++i) {
    const std::string name = StrCat("adapter-", i);
    ASSERT_EQ(catalog->Resolve("default", name)->adapter(), AdapterId(5000 + i));
    ASSERT_EQ(catalog->NameOf(AdapterId(5000 + i)), name);
    ASSERT_EQ(catalog->NameOf(AdapterId(i)), "");
  }
}

TEST(Catalog, TakesOnlySoMany) {
  const auto catalog = Make({Base("base")});
  for (int32_t i = 0; i < Catalog::kMaxAdapters; ++i) {
    ASSERT_TRUE(catalog->Add(Adapter(StrCat("a", i), i), Catalog::IfTaken::kRefuse).ok());
  }
  int released = 0;
  EXPECT_EQ(
      catalog->Add(Adapter("more", 1'000'000, [&] { ++released; }), Catalog::IfTaken::kReplace)
          .code(),
      StatusCode::kResourceExhausted);
  EXPECT_EQ(released, 1);
  EXPECT_TRUE(catalog->Add(Adapter("a0", 1'000'001), Catalog::IfTaken::kReplace).ok());
  ASSERT_TRUE(catalog->Remove("a1").ok());
  EXPECT_TRUE(catalog->Add(Adapter("more", 1'000'002), Catalog::IfTaken::kRefuse).ok());
}

TEST(Catalog, WhoResolvesGetsTheOldOrTheNew) {
  const auto catalog = Make({Base("base"), Adapter("a", 0)});
  std::thread mover([&] {
    for (int32_t i = 1; i < 1000; ++i) {
      EXPECT_TRUE(catalog->Add(Adapter("a", i), Catalog::IfTaken::kReplace).ok());
    }
  });
  AdapterId last(0);
  while (last != AdapterId(999)) {
    const CatalogEntryPtr entry = catalog->Resolve("default", "a");
    ASSERT_NE(entry, nullptr);
    ASSERT_GE(entry->adapter().value(), last.value());
    last = entry->adapter();
  }
  mover.join();
}

}  // namespace
}  // namespace aril
