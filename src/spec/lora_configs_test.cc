// Real adapter_config.json files, as found in the wild: what becomes of each on a Llama of 32
// layers.
//
// testdata/real_configs.tsv was reviewed by hand. A line is a file, then either "served", the rank,
// the scale and the first letters of the projections (as all layers have them), or "refused" and a
// part of the message.

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/lora_spec.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kConfigs = SharedPath("data/adapters/configs/");
const std::string kTable = SourcePath("src/spec/testdata/real_configs.tsv");

StatusOr<LoraSpec> ResolveFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 20));
  ASSIGN_OR_RETURN(const Json json, Json::Parse(text));
  ASSIGN_OR_RETURN(const LoraConfig config, ParseLoraConfig(json));
  ModelSpec base;
  base.num_layers = 32;
  return ResolveLora(config, base);
}

// "16\t2\tqv" if all adapted modules of all layers are alike.
std::string Describe(const LoraSpec& spec) {
  LoraModule common;
  std::set<std::string> kinds;
  for (int64_t layer = 0; layer < std::ssize(spec.layers); ++layer) {
    std::string letters;
    for (const Projection projection : kAllProjections) {
      const LoraModule module = spec.At(layer, projection);
      if (module.rank == 0) continue;
      letters += Name(projection).front();
      common = module;
    }
    kinds.insert(letters);
  }
  for (const auto& layer : spec.layers) {
    for (const LoraModule& module : layer) {
      if (module.rank != 0) {
        EXPECT_EQ(module, common);
      }
    }
  }
  std::string more;
  const auto add = [&](bool is, const char* what) {
    if (is) more += (more.empty() ? " + " : ", ") + std::string(what);
  };
  add(spec.use_dora, "DoRA");
  add(spec.lm_head == common, "lm_head");
  add(spec.embedding == common, "embedding");
  add(spec.replaces_lm_head, "own lm_head");
  add(spec.replaces_embedding, "own embedding");
  return StrCat(common.rank, '\t', common.scale, '\t', Join(kinds, "|"), more);
}

TEST(RealLoraConfigs, AreServedOrRefusedAsReviewed) {
  if (!FileExists(kConfigs)) GTEST_SKIP() << kConfigs << " is absent";
  std::ifstream table(kTable);
  std::set<std::string> seen;
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string file, verdict, expected;
    std::getline(fields, file, '\t');
    std::getline(fields, verdict, '\t');
    std::getline(fields, expected);
    SCOPED_TRACE(file);
    seen.insert(file);
    const auto spec = ResolveFile(kConfigs + file);
    if (verdict == "served") {
      ASSERT_TRUE(spec.ok()) << spec.status();
      EXPECT_EQ(Describe(*spec), expected);
    } else {
      EXPECT_THAT(Message(spec.status()), HasSubstr(expected));
    }
  }
  for (const auto& entry : fs::directory_iterator(kConfigs))
    EXPECT_TRUE(seen.contains(entry.path().filename())) << entry.path();
}

}  // namespace
}  // namespace aril
