// A catalog whose names other processes change as well.

#include <map>
#include <string>
#include <utility>

#include "base/strings.h"
#include "catalog/catalog.h"
#include "catalog/restore_entry.h"
#include "catalog/test_support.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

// What two processes share: the catalog is in one, and the test is the other.
class SharedStore final : public NameStore {
 public:
  bool Has(const std::string&) const override { return true; }
  StatusOr<std::vector<std::string>> Put(const RegisteredAdapter& row) override {
    if (before_put) std::exchange(before_put, nullptr)();
    if (!news.changed.empty() || !news.removed.empty()) {
      return MakeStatus(StatusCode::kAborted, "changed meanwhile");
    }
    rows[row.name] = row;
    return std::vector<std::string>();
  }
  StatusOr<std::vector<std::string>> Remove(const std::string&, const std::string& name) override {
    rows.erase(name);
    return std::vector<std::string>();
  }
  StatusOr<NameChanges> Poll() override {
    if (is_down) return Unavailable("down");
    return std::exchange(news, {});
  }
  // The other process gives a name.
  void Change(const std::string& name, int32_t id) {
    news.changed.push_back(
        {.owner = "", .name = name, .history = {{.digest = StrCat("g", id), .since_unix = 7}}});
  }

  NameChanges news;
  std::map<std::string, RegisteredAdapter> rows;
  std::function<void()> before_put;
  bool is_down = false;
};

class SharedCatalogTest : public ::testing::Test {
 protected:
  SharedStore store_;
  std::shared_ptr<Catalog> catalog_ =
      MakeCatalog({Base("base"), Adapter("given", 1)},
                  {.registry = &store_, .restore = [](const RegisteredAdapter& row) {
                     return RestoreEntry(row, "base", FindByDigest);
                   }});
};

TEST_F(SharedCatalogTest, OthersChangesAreTakenOver) {
  store_.Change("new", 5);
  store_.Change("given", 6);
  EXPECT_EQ(catalog_->Resolve("a", "new"), nullptr);
  ASSERT_TRUE(catalog_->Sync().ok());
  EXPECT_EQ(catalog_->Resolve("a", "new")->adapter(), AdapterId(5));
  EXPECT_EQ(catalog_->Resolve("a", "new")->history.back().since_unix, 7);
  const CatalogEntryPtr given = catalog_->Resolve("a", "given");
  EXPECT_EQ(given->adapter(), AdapterId(6));
  given->usage->OnRequest(3, "");
  store_.Change("given", 7);
  ASSERT_TRUE(catalog_->Sync().ok());
  EXPECT_EQ(catalog_->Resolve("a", "given")->usage->Read().requests, 1) << "it goes on";
  EXPECT_EQ(catalog_->NameOf(AdapterId(6)), "given") << "somebody still uses it";
  store_.news.removed = {{"", "new"}};
  ASSERT_TRUE(catalog_->Sync().ok());
  EXPECT_EQ(catalog_->Resolve("a", "new"), nullptr);
}

TEST_F(SharedCatalogTest, WhatCannotBeRestoredIsNotServed) {
  store_.Change("new", 5);
  store_.Change("fine", 6);
  ASSERT_TRUE(catalog_->Sync().ok());
  store_.Change("new", 99);
  store_.Change("fine", 7);
  ASSERT_TRUE(catalog_->Sync().ok());
  EXPECT_EQ(catalog_->Resolve("a", "new"), nullptr);
  EXPECT_EQ(catalog_->Resolve("a", "fine")->adapter(), AdapterId(7));
  store_.is_down = true;
  EXPECT_EQ(catalog_->Sync().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Put(*catalog_, Adapter("x", 1)).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Remove(*catalog_, "fine").code(), StatusCode::kUnavailable);
  EXPECT_NE(catalog_->Resolve("a", "fine"), nullptr);
}

TEST_F(SharedCatalogTest, WhoIsSecondDecidesAgain) {
  store_.before_put = [this] { store_.Change("x", 5); };
  EXPECT_TRUE(Put(*catalog_, Adapter("x", 6)).ok());
  EXPECT_EQ(catalog_->Resolve("a", "x")->adapter(), AdapterId(6));
  EXPECT_EQ(store_.rows["x"].history.size(), 2u) << "behind the other's";
  store_.before_put = [this] { store_.Change("x", 7); };
  EXPECT_EQ(Put(*catalog_, Adapter("x", 8), "g6").code(), StatusCode::kAborted);
  EXPECT_EQ(catalog_->Resolve("a", "x")->adapter(), AdapterId(7));
  store_.before_put = [this] { store_.Change("y", 7); };
  EXPECT_EQ(Put(*catalog_, Adapter("y", 8), kFree).code(), StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace aril
