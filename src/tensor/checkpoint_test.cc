

#include "base/strings.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/safetensors.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  // One F32 tensor of 2 zeros for each name.
  void WriteShard(const std::string& file, const std::vector<std::string>& names) {
    std::vector<SafetensorsWriter::Declaration> tensors;
    for (const auto& name : names) tensors.push_back({name, DType::kF32, {2}});
    auto writer = SafetensorsWriter::Create(dir_ / file, tensors, {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(writer->Append(std::vector<std::byte>(8 * names.size())).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  void WriteText(const std::string& file, const std::string& text) { dir_.Write(file, text); }
  void WriteIndex(const std::string& weight_map) {
    WriteText("model.safetensors.index.json", R"({"weight_map":)" + weight_map + "}");
  }
  std::string ErrorOfOpen() {
    const auto checkpoint = Checkpoint::Open(dir_.path());
    return checkpoint.ok() ? "" : Message(checkpoint.status());
  }

  const TestDir dir_;
};

TEST_F(CheckpointTest, OneFile) {
  WriteShard("model.safetensors", {"a", "b"});
  const auto checkpoint = Checkpoint::Open(dir_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_TRUE(checkpoint->Get("a", {2}).ok());
}

TEST_F(CheckpointTest, ShardsAreJoined) {
  WriteShard("s1.safetensors", {"a", "b"});
  WriteShard("s2.safetensors", {"c", "unlisted"});
  WriteIndex(R"({"a":"s1.safetensors","b":"s1.safetensors","c":"s2.safetensors"})");
  auto opened = Checkpoint::Open(dir_.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Checkpoint checkpoint = *std::move(opened);  // views survive a move
  EXPECT_EQ(checkpoint.tensors().size(), 4u);
  const auto c = checkpoint.Get("c", {2});
  ASSERT_TRUE(c.ok());
  EXPECT_TRUE(AllFinite(*c));
}

TEST_F(CheckpointTest, GetNamesTensorFoundAndExpected) {
  WriteShard("model.safetensors", {"a"});
  const auto checkpoint = Checkpoint::Open(dir_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT(Message(checkpoint->Get("z", {2}).status()), HasSubstr(R"("z" is missing)"));
  EXPECT_THAT(Message(checkpoint->Get("a", {1, 2}).status()),
              HasSubstr(R"("a" has shape [2], expected [1, 2])"));
}

TEST_F(CheckpointTest, GetRefusesOtherDTypes) {
  auto writer = SafetensorsWriter::Create(dir_ / "model.safetensors", {{"q", DType::kI8, {4}}}, {});
  ASSERT_TRUE(writer->Append(std::vector<std::byte>(4)).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto checkpoint = Checkpoint::Open(dir_.path());
  EXPECT_THAT(Message(checkpoint->Get("q", {4}).status()), HasSubstr("dtype I8"));
}

// As of models whose config.json has lost what it said of them.
TEST_F(CheckpointTest, GetSaysWhatQuantizedWeightsLack) {
  for (const char* scales : {"q_scale", "q_scale_inv", "q.absmax", "other"}) {
    auto writer = SafetensorsWriter::Create(
        dir_ / "model.safetensors", {{"q", DType::kI8, {4}}, {scales, DType::kI8, {1}}}, {});
    ASSERT_TRUE(writer->Append(std::vector<std::byte>(5)).ok());
    ASSERT_TRUE(writer->Finish().ok());
    const auto checkpoint = Checkpoint::Open(dir_.path());
    const std::string error = Message(checkpoint->Get("q", {4}).status());
    EXPECT_EQ(error.ends_with(", or config.json have a quantization_config of their kind"),
              scales != std::string("other"))
        << error;
  }
}

TEST_F(CheckpointTest, AbsentWeightsAreSaid) {
  EXPECT_THAT(ErrorOfOpen(), HasSubstr("neither model.safetensors nor"));
  WriteText("pytorch_model.bin", "x");
  EXPECT_THAT(ErrorOfOpen(), AllOf(HasSubstr("pytorch_model.bin"), HasSubstr("can run code")));
  WriteText("gptq_model-4bit-128g.safetensors", "x");
  EXPECT_THAT(ErrorOfOpen(), HasSubstr(R"(("gptq_model-4bit-128g.safetensors" is: if it has all)"));
}

TEST_F(CheckpointTest, ShardNamesStayInTheDirectory) {
  for (const char* name : {"../x", "/etc/passwd", "..", ".", "", "a/b", "a\\\\b", "a\\u0000b"}) {
    WriteIndex(StrCat(R"({"a":")", name, R"("})"));
    EXPECT_THAT(ErrorOfOpen(), HasSubstr("is not a plain file name")) << name;
  }
}

TEST_F(CheckpointTest, RefusesBadIndexes) {
  WriteShard("s1.safetensors", {"a"});
  WriteShard("s2.safetensors", {"a", "b"});
  WriteText("model.safetensors.index.json", "[]");
  EXPECT_THAT(ErrorOfOpen(), HasSubstr("weight_map must be an object"));
  WriteIndex("{}");
  EXPECT_THAT(ErrorOfOpen(), HasSubstr("weight_map is empty"));
  WriteIndex(R"({"a":1})");
  EXPECT_THAT(ErrorOfOpen(), HasSubstr(R"(weight_map "a" must be a file name, not an integer)"));
  WriteIndex(R"({"a":"s3.safetensors"})");
  EXPECT_THAT(ErrorOfOpen(), HasSubstr("s3.safetensors: No such file"));
  WriteIndex(R"({"b":"s1.safetensors"})");
  EXPECT_THAT(ErrorOfOpen(), HasSubstr(R"("b" is listed in s1.safetensors but is in no shard)"));
  WriteIndex(R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  EXPECT_THAT(ErrorOfOpen(), HasSubstr(R"("a" is in both s1.safetensors and s2.safetensors)"));
  WriteShard("s2.safetensors", {"b"});
  WriteIndex(R"({"a":"s2.safetensors","b":"s1.safetensors"})");
  EXPECT_THAT(ErrorOfOpen(), HasSubstr("is listed in s2.safetensors but is in s1.safetensors"));
}

TEST_F(CheckpointTest, ABrokenShardIsNamed) {
  WriteText("s1.safetensors", "<html>");
  WriteIndex(R"({"a":"s1.safetensors"})");
  EXPECT_THAT(ErrorOfOpen(), AllOf(HasSubstr("s1.safetensors: "), HasSubstr("a text file")));
}

TEST(RealCheckpoint, Stories260K) {
  if (!FileExists(SharedPath("data"))) GTEST_SKIP() << SharedPath("data") << " is absent";
  const auto checkpoint = Checkpoint::Open(SharedPath("data/models/stories260K"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(checkpoint->Get("model.embed_tokens.weight", {512, 64}).ok());
  for (const auto& [name, tensor] : checkpoint->tensors()) EXPECT_TRUE(AllFinite(tensor)) << name;
}

}  // namespace
}  // namespace aril
