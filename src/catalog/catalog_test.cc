#include "catalog/catalog.h"

#include <map>
#include <thread>
#include <utility>

#include "base/strings.h"
#include "base/test_dir.h"
#include "catalog/registry.h"
#include "catalog/restore_entry.h"
#include "catalog/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(const Catalog& catalog, const std::string& tenant = "default") {
  std::vector<std::string> names;
  for (const CatalogEntryPtr& entry : catalog.List(tenant)) names.push_back(entry->name);
  return names;
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
  const auto catalog = MakeCatalog({Adapter("sql", 1), Base("base"), Adapter("chat", 0)});
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
      MakeCatalog({Adapter("b", 1), Base("zz"), Adapter("c", 2), Adapter("a", 0), Base("base")});
  EXPECT_EQ(catalog->base_name(), "zz") << "as the operator ordered them";
  EXPECT_THAT(Names(*catalog), ElementsAre("base", "zz", "a", "b", "c"));
}

TEST(Catalog, NamesModelsForMetrics) {
  const auto catalog = MakeCatalog({Base("base"), Adapter("one", 7), Adapter("two", 7)});
  EXPECT_EQ(catalog->NameOf(AdapterId(7)), "one");
  EXPECT_EQ(catalog->NameOf(AdapterId(8)), "");
  EXPECT_EQ(catalog->NameOf(kBaseModel), "base");
  ASSERT_TRUE(Remove(*catalog, "one").ok());
  EXPECT_EQ(catalog->NameOf(AdapterId(7)), "two");
}

TEST(Catalog, RefusesBadEntries) {
  const auto error = [](std::vector<CatalogEntry> entries) {
    return Message(Catalog::Create(std::move(entries), {}).status());
  };
  EXPECT_THAT(error({Base("a"), Base("a")}), HasSubstr(R"("a" is given twice)"));
  EXPECT_THAT(error({Base("a,b")}), HasSubstr(R"(model name "a,b" must be 1 to 128)"));
  EXPECT_THAT(error({Base(std::string(100000, 'x'))}), HasSubstr("must be"));
  CatalogEntry given = Adapter("a", 0);
  given.is_given = true;
  EXPECT_THAT(error({Base("a"), given}), HasSubstr(R"("a" is given twice)"));
  CatalogEntry entry = Adapter("a", 0);
  entry.parent = "";
  EXPECT_THAT(error({entry}), HasSubstr("without a parent"));
  entry = Base("a");
  entry.parent = "b";
  EXPECT_THAT(error({entry}), HasSubstr("a base model with a parent"));
}

TEST(Catalog, AddsWhatIsNewAndReplacesOnlyIfAsked) {
  const auto catalog = MakeCatalog({Base("base"), Adapter("a", 0)});
  ASSERT_TRUE(Put(*catalog, Adapter("b", 1), kFree).ok());
  EXPECT_EQ(catalog->num_adapters(), 2);
  EXPECT_EQ(Put(*catalog, Adapter("a", 2), kFree).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(catalog->Resolve("default", "a")->adapter(), AdapterId(0));
  ASSERT_TRUE(Put(*catalog, Adapter("a", 2)).ok());
  EXPECT_EQ(catalog->Resolve("default", "a")->adapter(), AdapterId(2));
  EXPECT_EQ(catalog->num_adapters(), 2);
  EXPECT_THAT(Message(Put(*catalog, Adapter("base", 3))), HasSubstr("is a name of the base model"));
  EXPECT_THAT(Message(Put(*catalog, Adapter("a b", 3))), HasSubstr("must be 1 to 128"));
  EXPECT_FALSE(Put(*catalog, Base("other")).ok());
}

TEST(Catalog, RemovesAdaptersOnly) {
  const auto catalog = MakeCatalog({Base("base"), Adapter("a", 0)});
  EXPECT_EQ(Remove(*catalog, "base").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Remove(*catalog, "b").code(), StatusCode::kNotFound);
  EXPECT_TRUE(Remove(*catalog, "a").ok());
  EXPECT_EQ(catalog->Resolve("default", "a"), nullptr);
  EXPECT_EQ(Remove(*catalog, "a").code(), StatusCode::kNotFound);
}

TEST(Catalog, AGenerationStaysAsLongAsSomebodyUsesIt) {
  int released = 0;
  const auto catalog = MakeCatalog({Base("base"), Adapter("a", 0, [&] { ++released; })});
  CatalogEntryPtr in_use = catalog->Resolve("default", "a");
  ASSERT_TRUE(Put(*catalog, Adapter("a", 1)).ok());
  EXPECT_EQ(catalog->Resolve("default", "a")->adapter(), AdapterId(1));
  EXPECT_EQ(in_use->adapter(), AdapterId(0));
  EXPECT_EQ(catalog->NameOf(AdapterId(0)), "a") << "still used, still shown";
  EXPECT_EQ(released, 0);
  in_use = nullptr;
  EXPECT_EQ(released, 1);
  EXPECT_EQ(catalog->NameOf(AdapterId(0)), "");
}

TEST(Catalog, ANameThatWasPutAgainIsShownAsLongAsItIsUsed) {
  const auto catalog = MakeCatalog({Base("base"), Adapter("a", 0)});
  ASSERT_TRUE(Put(*catalog, Adapter("a", 0)).ok());
  const CatalogEntryPtr in_use = catalog->Resolve("default", "a");
  ASSERT_TRUE(Remove(*catalog, "a").ok());
  EXPECT_EQ(catalog->NameOf(AdapterId(0)), "a");
}

TEST(Catalog, TheReleaseMayUseTheCatalog) {
  const auto catalog = MakeCatalog({Base("base")});
  std::string name = "?";
  ASSERT_TRUE(
      Put(*catalog, Adapter("a", 0, [&] { name = catalog->NameOf(AdapterId(0)); }), kFree).ok());
  ASSERT_TRUE(Remove(*catalog, "a").ok());
  EXPECT_EQ(name, "");
}

TEST(Catalog, ThousandsOfAdapters) {
  std::vector<CatalogEntry> entries = {Base("base")};
  for (int32_t i = 0; i < 5000; ++i) entries.push_back(Adapter(StrCat("adapter-", i), i));
  const auto catalog = MakeCatalog(std::move(entries));
  // All of them move, and what they left is forgotten on the way.
  for (int32_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(Put(*catalog, Adapter(StrCat("adapter-", i), 5000 + i)).ok());
  }
  for (int32_t i = 0; i < 5000; ++i) {
    const std::string name = StrCat("adapter-", i);
    ASSERT_EQ(catalog->Resolve("default", name)->adapter(), AdapterId(5000 + i));
    ASSERT_EQ(catalog->NameOf(AdapterId(5000 + i)), name);
    ASSERT_EQ(catalog->NameOf(AdapterId(i)), "");
  }
}

TEST(Catalog, TakesOnlySoMany) {
  const auto catalog = MakeCatalog({Base("base")});
  for (int32_t i = 0; i < Catalog::kMaxAdapters; ++i) {
    ASSERT_TRUE(Put(*catalog, Adapter(StrCat("a", i), i), kFree).ok());
  }
  int released = 0;
  EXPECT_EQ(Put(*catalog, Adapter("more", 1'000'000, [&] { ++released; })).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(released, 1);
  EXPECT_TRUE(Put(*catalog, Adapter("a0", 1'000'001)).ok());
  ASSERT_TRUE(Remove(*catalog, "a1").ok());
  EXPECT_TRUE(Put(*catalog, Adapter("more", 1'000'002), kFree).ok());
}

TEST(Catalog, WhoResolvesGetsTheOldOrTheNew) {
  const auto catalog = MakeCatalog({Base("base"), Adapter("a", 0)});
  std::thread mover([&] {
    for (int32_t i = 1; i < 1000; ++i) {
      EXPECT_TRUE(Put(*catalog, Adapter("a", i)).ok());
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

TEST(Catalog, AChangeSaysWhatItExpects) {
  const auto catalog = MakeCatalog({Base("base"), Adapter("a", 0)});
  EXPECT_THAT(Message(Put(*catalog, Adapter("a", 1), "g7")),
              HasSubstr(R"("a" stands for generation g0, not for the expected g7)"));
  EXPECT_EQ(Put(*catalog, Adapter("b", 1), "g7").code(), StatusCode::kAborted);
  EXPECT_TRUE(Put(*catalog, Adapter("a", 1), "g0").ok());
  EXPECT_EQ(catalog->Remove("default", "a", "g0").code(), StatusCode::kAborted);
  EXPECT_TRUE(catalog->Remove("default", "a", "g1").ok());
}

TEST(Catalog, TenantsSeeTheirOwnAndWhatIsForAll) {
  const auto catalog = MakeCatalog({Base("base"), Adapter("all", 0)});
  ASSERT_TRUE(catalog->Put("acme", Adapter("x", 1), kFree).ok());
  ASSERT_TRUE(catalog->Put("zeta", Adapter("x", 2), kFree).ok()) << "names are each tenant's own";
  ASSERT_TRUE(catalog->Put("zeta", Adapter("alpha", 3), kFree).ok());
  EXPECT_THAT(Names(*catalog, "acme"), ElementsAre("base", "all", "x"));
  EXPECT_THAT(Names(*catalog, "zeta"), ElementsAre("base", "all", "alpha", "x"));
  EXPECT_THAT(Names(*catalog, "default"), ElementsAre("base", "all"));
  EXPECT_EQ(catalog->Resolve("acme", "x")->adapter(), AdapterId(1));
  EXPECT_EQ(catalog->Resolve("zeta", "x")->adapter(), AdapterId(2));
  EXPECT_EQ(catalog->Resolve("default", "x"), nullptr);
  EXPECT_EQ(catalog->Remove("acme", "alpha", std::nullopt).code(), StatusCode::kNotFound);
  EXPECT_EQ(catalog->Put("acme", Adapter("all", 4), std::nullopt).status().code(),
            StatusCode::kAlreadyExists)
      << "nobody may hide what is for all";
  EXPECT_EQ(catalog->Remove("acme", "all", std::nullopt).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(catalog->Remove("acme", "x", std::nullopt).ok());
  EXPECT_EQ(catalog->Resolve("zeta", "x")->adapter(), AdapterId(2));
}

TEST(Catalog, TheDefaultTenantChangesWhatIsForAll) {
  const auto catalog = MakeCatalog({Base("base"), Adapter("all", 0)});
  ASSERT_TRUE(Put(*catalog, Adapter("all", 1)).ok());
  EXPECT_EQ(catalog->Resolve("acme", "all")->adapter(), AdapterId(1));
  ASSERT_TRUE(Put(*catalog, Adapter("mine", 2)).ok());
  EXPECT_EQ(catalog->Resolve("acme", "mine"), nullptr) << "what it adds is its own";
  ASSERT_TRUE(Remove(*catalog, "all").ok());
  EXPECT_EQ(catalog->Resolve("acme", "all"), nullptr);
}

TEST(Catalog, ANameRemembersWhatItStoodFor) {
  ManualClock clock;
  const auto catalog = MakeCatalog({Base("base")}, {.clock = &clock});
  const auto history = [&] {
    std::vector<std::string> digests;
    for (const PastGeneration& past : catalog->Resolve("default", "a")->history) {
      digests.push_back(StrCat(past.digest, "@", past.since_unix));
    }
    return Join(digests, " ");
  };
  for (const int32_t id : {1, 2, 2, 1}) {
    clock.Advance(std::chrono::seconds(1));
    ASSERT_TRUE(Put(*catalog, Adapter("a", id)).ok());
  }
  EXPECT_EQ(history(), "g1@1 g2@2 g1@4");
  for (int32_t id = 10; id < 30; ++id) ASSERT_TRUE(Put(*catalog, Adapter("a", id)).ok());
  EXPECT_EQ(history(), "g20@4 g21@4 g22@4 g23@4 g24@4 g25@4 g26@4 g27@4 g28@4 g29@4");
}

TEST(Catalog, UsageGoesOnWhenANameMoves) {
  const auto catalog = MakeCatalog({Base("base"), Adapter("a", 0)});
  catalog->Resolve("default", "a")->usage->OnRequest(5, "");
  ASSERT_TRUE(Put(*catalog, Adapter("a", 1)).ok());
  catalog->Resolve("default", "a")->usage->OnRequest(7, "gone");
  const NameUsage::Numbers usage = catalog->Resolve("default", "a")->usage->Read();
  EXPECT_EQ(usage.requests, 2);
  EXPECT_EQ(usage.last_used_unix, 7);
  EXPECT_EQ(usage.error, "gone");
}

TEST(Catalog, NamesExpire) {
  ManualClock clock;
  int released = 0;
  const auto catalog = MakeCatalog({Base("base"), Adapter("stays", 0)}, {.clock = &clock});
  CatalogEntry entry = Adapter("a", 1, [&] { ++released; });
  entry.expires_unix = 10;
  ASSERT_TRUE(Put(*catalog, std::move(entry)).ok());
  clock.Advance(std::chrono::seconds(9));
  EXPECT_THAT(Names(*catalog), ElementsAre("base", "a", "stays"));
  clock.Advance(std::chrono::seconds(1));
  EXPECT_EQ(catalog->Resolve("default", "a"), nullptr);
  EXPECT_THAT(Names(*catalog), ElementsAre("base", "stays"));
  EXPECT_EQ(Remove(*catalog, "a").code(), StatusCode::kNotFound);
  EXPECT_EQ(released, 1) << "a change sweeps";
  EXPECT_TRUE(Put(*catalog, Adapter("a", 2), kFree).ok());
  EXPECT_EQ(catalog->Resolve("default", "a")->history.size(), 1u);
}

class DurableCatalogTest : public ::testing::Test {
 protected:
  // A new process: what the command line gives, and what the registry has.
  void Restart(std::vector<CatalogEntry> given) {
    catalog_ = nullptr;
    registry_ = nullptr;
    auto registry = Registry::Open(dir_ / "registry.sqlite", "base");
    ASSERT_TRUE(registry.ok()) << registry.status();
    registry_ = *std::move(registry);
    std::vector<CatalogEntry> entries = {Base("base")};
    for (CatalogEntry& entry : given) {
      entry.is_given = true;
      entries.push_back(std::move(entry));
    }
    const auto registered = registry_->List();
    ASSERT_TRUE(registered.ok()) << registered.status();
    for (const RegisteredAdapter& adapter : *registered) {
      auto entry = RestoreEntry(adapter, "base", FindByDigest);
      ASSERT_TRUE(entry.ok()) << entry.status();
      entries.push_back(*std::move(entry));
    }
    catalog_ =
        MakeCatalog(std::move(entries),
                    {.clock = &clock_, .registry = registry_.get(), .on_forgotten = [this](auto d) {
                       forgotten_.push_back(d);
                     }});
  }

  TestDir dir_;
  ManualClock clock_;
  std::unique_ptr<Registry> registry_;
  std::shared_ptr<Catalog> catalog_;
  std::vector<std::string> forgotten_;
};

TEST_F(DurableCatalogTest, ARestartServesTheSameNames) {
  Restart({});
  ASSERT_TRUE(Put(*catalog_, Adapter("a", 1)).ok());
  ASSERT_TRUE(Put(*catalog_, Adapter("a", 2)).ok());
  ASSERT_TRUE(catalog_->Put("acme", Adapter("x", 3), kFree).ok());
  ASSERT_TRUE(Put(*catalog_, Adapter("gone", 4)).ok());
  ASSERT_TRUE(Remove(*catalog_, "gone").ok());
  EXPECT_THAT(forgotten_, ElementsAre("g4"));
  Restart({});
  EXPECT_THAT(Names(*catalog_), ElementsAre("base", "a"));
  EXPECT_THAT(Names(*catalog_, "acme"), ElementsAre("base", "x"));
  EXPECT_EQ(catalog_->Resolve("default", "a")->history.size(), 2u);
}

TEST_F(DurableCatalogTest, WhatWasChangedComesBeforeTheCommandLine) {
  Restart({Adapter("a", 1)});
  ASSERT_TRUE(Put(*catalog_, Adapter("a", 2)).ok());
  Restart({Adapter("a", 1)});
  EXPECT_EQ(catalog_->Resolve("acme", "a")->adapter(), AdapterId(2));
  EXPECT_THAT(Message(Remove(*catalog_, "a")), HasSubstr("would be back after a restart"));
  Restart({});
  EXPECT_TRUE(Remove(*catalog_, "a").ok());
}

TEST_F(DurableCatalogTest, ExpiredNamesLeaveTheRegistry) {
  Restart({});
  CatalogEntry entry = Adapter("a", 1);
  entry.expires_unix = 10;
  ASSERT_TRUE(Put(*catalog_, std::move(entry)).ok());
  Restart({});
  clock_.Advance(std::chrono::seconds(10));
  ASSERT_TRUE(Put(*catalog_, Adapter("b", 2)).ok());
  EXPECT_THAT(forgotten_, ElementsAre("g1"));
  Restart({});
  EXPECT_THAT(Names(*catalog_), ElementsAre("base", "b"));
}

TEST_F(DurableCatalogTest, WhatHasExpiredIsSweptAlsoAfterARestart) {
  Restart({});
  CatalogEntry entry = Adapter("a", 1);
  entry.expires_unix = 10;
  ASSERT_TRUE(Put(*catalog_, std::move(entry)).ok());
  EXPECT_TRUE(catalog_->Sweep().ok());
  EXPECT_THAT(forgotten_, ElementsAre());
  clock_.Advance(std::chrono::seconds(10));
  Restart({});
  EXPECT_TRUE(catalog_->Sweep().ok());
  EXPECT_THAT(forgotten_, ElementsAre("g1"));
  EXPECT_FALSE(registry_->Has("g1"));
}

TEST_F(DurableCatalogTest, AnExpiredNameThatIsRenewedKeepsItsFiles) {
  Restart({});
  CatalogEntry entry = Adapter("a", 1);
  entry.expires_unix = 10;
  ASSERT_TRUE(Put(*catalog_, std::move(entry)).ok());
  clock_.Advance(std::chrono::seconds(10));
  ASSERT_TRUE(Put(*catalog_, Adapter("a", 1)).ok());
  EXPECT_THAT(forgotten_, ElementsAre());
  EXPECT_TRUE(registry_->Has("g1"));
}

TEST_F(DurableCatalogTest, WhatCouldNotBeAddedIsForgotten) {
  Restart({});
  ASSERT_TRUE(Put(*catalog_, Adapter("a", 1)).ok());
  EXPECT_FALSE(Put(*catalog_, Adapter("a", 2), kFree).ok());
  EXPECT_FALSE(Put(*catalog_, Adapter("a", 1), kFree).ok());
  EXPECT_THAT(forgotten_, ElementsAre("g2"));
}

TEST_F(DurableCatalogTest, WhatIsDiscardedIsForgottenUnlessANameHasIt) {
  Restart({});
  ASSERT_TRUE(Put(*catalog_, Adapter("a", 1)).ok());
  catalog_->Discard(Adapter("b", 1));
  catalog_->Discard(Adapter("b", 2));
  EXPECT_THAT(forgotten_, ElementsAre("g2"));
}

TEST_F(DurableCatalogTest, WhatTheCommandLineGivesCannotExpire) {
  Restart({Adapter("a", 1)});
  CatalogEntry entry = Adapter("a", 2);
  entry.expires_unix = 10;
  EXPECT_THAT(Message(Put(*catalog_, std::move(entry))), HasSubstr("given on the command line"));
  EXPECT_EQ(catalog_->Resolve("acme", "a")->adapter(), AdapterId(1));
}

TEST_F(DurableCatalogTest, ANameThatWasATenantsBeforeStaysItsOwn) {
  Restart({});
  ASSERT_TRUE(catalog_->Put("acme", Adapter("a", 1), kFree).ok());
  ASSERT_TRUE(Put(*catalog_, Adapter("a", 2), kFree).ok());
  Restart({Adapter("a", 3)});
  EXPECT_EQ(catalog_->Resolve("zeta", "a")->adapter(), AdapterId(3));
  for (const auto& [tenant, id] : {std::pair("acme", 1), std::pair("default", 2)}) {
    EXPECT_EQ(catalog_->Resolve(tenant, "a")->adapter(), AdapterId(id));
    EXPECT_TRUE(catalog_->Put(tenant, Adapter("a", 10 + id), StrCat("g", id)).ok());
    EXPECT_EQ(catalog_->Resolve(tenant, "a")->adapter(), AdapterId(10 + id));
    EXPECT_TRUE(catalog_->Remove(tenant, "a", std::nullopt).ok());
    EXPECT_EQ(catalog_->Resolve(tenant, "a")->adapter(), AdapterId(3));
  }
  EXPECT_EQ(catalog_->Put("acme", Adapter("a", 4), kFree).status().code(),
            StatusCode::kAlreadyExists);
}

TEST_F(DurableCatalogTest, ARegisteredNameDoesNotKeepTheBaseModelFromIt) {
  Restart({});
  ASSERT_TRUE(catalog_->Put("acme", Adapter("renamed", 1), kFree).ok());
  CatalogEntry entry = Adapter("renamed", 1);
  entry.owner = "acme";
  const auto catalog = MakeCatalog({Base("renamed"), std::move(entry)});
  EXPECT_EQ(catalog->Resolve("acme", "renamed")->adapter(), kBaseModel);
}

}  // namespace
}  // namespace aril
