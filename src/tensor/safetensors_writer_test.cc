
#include <array>

#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/safetensors.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> Bytes(const std::array<float, 6>& values) {
  return std::as_bytes(std::span(values));
}

TEST(SafetensorsWriter, WhatIsWrittenIsRead) {
  const TestDir dir;
  const std::string path = dir / "model.safetensors";
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  {
    auto writer = SafetensorsWriter::Create(path,
                                            {{"w \"quoted\" é", DType::kF32, {2, 3}},
                                             {"empty", DType::kBF16, {0, 3}},
                                             {"scalar", DType::kF32, {}}},
                                            {{"format", "pt"}});
    ASSERT_TRUE(writer.ok()) << writer.status();
    // In two pieces that do not match the tensors' boundaries.
    ASSERT_TRUE(writer->Append(Bytes(values).first(10)).ok());
    SafetensorsWriter moved = *std::move(writer);
    ASSERT_TRUE(moved.Append(Bytes(values).subspan(10)).ok());
    ASSERT_TRUE(moved.Append(Bytes(values).first(4)).ok());
    EXPECT_FALSE(FileExists(path)) << "only a finished file has its name";
    ASSERT_TRUE(moved.Finish().ok());
  }
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata().at("format"), "pt");
  const TensorView& w = file->tensors().at("w \"quoted\" é");
  EXPECT_EQ(w.shape, (Shape{2, 3}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(w.data) % 8, 0u) << "the data section is aligned";
  std::array<float, 6> read;
  CopyAsFloat(w, 0, 6, read.data());
  EXPECT_EQ(read, values);
  EXPECT_EQ(file->tensors().at("empty").num_elements(), 0);
}

TEST(SafetensorsWriter, CountsTheBytes) {
  const TestDir dir;
  const std::string path = dir / "model.safetensors";
  {
    auto writer = SafetensorsWriter::Create(path, {{"x", DType::kF32, {6}}}, {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    const std::array<float, 6> values = {};
    ASSERT_TRUE(writer->Append(Bytes(values).first(20)).ok());
    EXPECT_THAT(Message(writer->Finish()), HasSubstr("4 declared bytes are missing"));
    EXPECT_THAT(Message(writer->Append(Bytes(values))), HasSubstr("20 bytes more"));
  }
  EXPECT_FALSE(FileExists(path));
  EXPECT_FALSE(FileExists(path + ".partial")) << "an unfinished writer leaves nothing behind";
}

TEST(SafetensorsWriter, RefusesBadDeclarations) {
  const TestDir dir;
  const auto error = [&](const std::vector<SafetensorsWriter::Declaration>& tensors) {
    return Message(SafetensorsWriter::Create(dir / "model.safetensors", tensors, {}).status());
  };
  EXPECT_THAT(error({{"x", DType::kF32, {1}}, {"x", DType::kF32, {1}}}),
              HasSubstr("declared twice"));
  EXPECT_THAT(error({{"__metadata__", DType::kF32, {1}}}), HasSubstr("reserved"));
  EXPECT_THAT(error({{"x", DType::kF32, {-1}}}), HasSubstr("negative shape"));
  EXPECT_THAT(error({{"x", DType::kF32, {INT64_MAX, 2}}}), HasSubstr("overflows"));
  EXPECT_THAT(error({{"x", DType::kU8, {INT64_MAX}}, {"y", DType::kU8, {1}}}),
              HasSubstr("overflows"));
  const auto nowhere = SafetensorsWriter::Create("/nonexistent/dir/x.safetensors", {}, {});
  EXPECT_THAT(Message(nowhere.status()), HasSubstr("cannot write"));
}

}  // namespace
}  // namespace aril
