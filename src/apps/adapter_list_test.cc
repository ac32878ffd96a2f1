#include "apps/adapter_list.h"

#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

class AdapterListTest : public ::testing::Test {
 protected:
  void AddFile(const std::string& path) { dir_.Write(path, "{}"); }

  const TestDir dir_;
};

TEST_F(AdapterListTest, FindsFoldersWithAConfig) {
  AddFile("b-16/adapter_config.json");
  AddFile("a/adapter_config.json");
  AddFile("no-adapter/config.json");
  AddFile("README.md");
  const auto adapters = FindAdapters(dir_.path());
  ASSERT_TRUE(adapters.ok()) << adapters.status();
  ASSERT_EQ(adapters->size(), 2u);
  EXPECT_EQ((*adapters)[0].name, "a");
  EXPECT_EQ((*adapters)[1].name, "b-16");
  EXPECT_EQ((*adapters)[1].dir, dir_ / "b-16");
}

TEST_F(AdapterListTest, SaysWhenThereIsNone) {
  EXPECT_THAT(Message(FindAdapters(dir_.path()).status()), HasSubstr("no sub-folder has"));
  EXPECT_THAT(Message(FindAdapters(dir_ / "absent").status()), HasSubstr("No such file"));
}

TEST_F(AdapterListTest, NamesTheBaseModelByItsFolder) {
  AddFile("tiny-llama/config.json");
  EXPECT_EQ(DefaultModelName(dir_ / "tiny-llama"), "tiny-llama");
  EXPECT_EQ(DefaultModelName(dir_ / "tiny-llama/"), "tiny-llama");
  EXPECT_EQ(DefaultModelName(dir_ / "tiny-llama/."), "tiny-llama");
  EXPECT_EQ(DefaultModelName("/"), "model");
}

TEST(AdapterList, ReadsNamesWithPaths) {
  const auto adapter = ParseLoraModule("sql=/adapters/a=b");
  ASSERT_TRUE(adapter.ok());
  EXPECT_EQ(adapter->name, "sql");
  EXPECT_EQ(adapter->dir, "/adapters/a=b");
  for (const char* bad : {"", "sql", "=path", "sql="}) {
    EXPECT_FALSE(ParseLoraModule(bad).ok()) << bad;
  }
}

TEST(AdapterList, EverybodyMayUseWhatTheCommandLineGives) {
  const auto generation = [](int32_t id) {
    return std::make_shared<const Generation>(
        Generation::Description{.adapter = AdapterId(id), .digest = StrCat("g", id)});
  };
  const auto catalog =
      Catalog::Create(EntriesOf({"base", "alias"}, "/m", {{"x", "/a/x"}, {"y", "/a/y"}},
                                {generation(0), generation(1)}, 7),
                      {});
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ((*catalog)->Resolve("acme", "alias")->adapter(), kBaseModel);
  const CatalogEntryPtr y = (*catalog)->Resolve("acme", "y");
  EXPECT_EQ(y->adapter(), AdapterId(1));
  EXPECT_EQ(y->parent, "base");
  EXPECT_EQ(y->root, "/a/y");
  EXPECT_TRUE(y->is_given);
  EXPECT_EQ(y->history.back().digest, "g1");
  EXPECT_EQ(y->history.back().since_unix, 7);
}

}  // namespace
}  // namespace aril
