// What a gateway without weights makes of the adapters that clients name.

#include "apps/cluster_adapters.h"

#include <string>
#include <utility>

#include "adapters/test_support.h"
#include "base/clock.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "cluster/fake_key_value_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

class ClusterAdaptersTest : public ::testing::Test {
 protected:
  // Describes and registers what lies in the folder.
  StatusOr<cluster::SharedGeneration> Load(const std::string& dir, const ModelSpec& base) {
    auto names =
        cluster::SharedNames::Open({.prefix = "aril/", .base_digest = "b"}, store_, clock_);
    if (!names.ok()) return names.status();
    ClusterAdapters adapters({.roots = AdapterRoots({std::filesystem::canonical(dir)}),
                              .spec = base,
                              .max_rank = 512,
                              .parent = "base",
                              .special_tokens = {},
                              .templates = std::make_shared<gateway::AdapterChatTemplates>()},
                             **names);
    ASSIGN_OR_RETURN(const auto generation, adapters.Load("."));
    return (*names)->Find((*generation)->digest)->second;
  }

  ManualClock clock_;
  cluster::FakeKeyValueStore store_;
};

// Rows of its down_proj take more than the 64 KiB in which small adapters are counted.
TEST_F(ClusterAdaptersTest, AWideBasesAdapterIsDescribed) {
  ModelSpec wide;
  wide.hidden_size = 8;
  wide.intermediate_size = 53248;
  wide.num_layers = 1;
  wide.num_heads = 1;
  wide.num_kv_heads = 1;
  wide.head_dim = 8;
  const TestDir dir;
  dir.Write("adapter_config.json", R"({"peft_type":"LORA","r":2,"target_modules":["down_proj"]})");
  const std::string module = "base_model.model.model.layers.0.mlp.down_proj";
  const EditableTensors tensors{
      {{module + ".lora_A.weight", EditableTensors::Tensor::Filled({2, 53248}, 1)},
       {module + ".lora_B.weight", EditableTensors::Tensor::Filled({8, 2}, 1)}}};
  tensors.Write(dir / "adapter_model.safetensors");
  const auto generation = Load(dir.path(), wide);
  ASSERT_TRUE(generation.ok()) << generation.status();
  // Two pages of one row each, and the short rows of the other matrix on a third.
  EXPECT_EQ(generation->pool_bytes, 3 * 53248 * 2);
}

}  // namespace
}  // namespace aril
