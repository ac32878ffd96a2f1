#include "tensor/safetensors.h"

#include <cstring>

#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A file with that header and `data_bytes` bytes of data.
std::string File(std::string_view header, size_t data_bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(uint64_t{header.size()} >> (8 * i)));
  return file.append(header).append(data_bytes, '\1');
}

StatusOr<Safetensors> Parse(std::string_view file) {
  return ParseSafetensors(std::as_bytes(std::span(file.data(), file.size())));
}

std::string ErrorOf(std::string_view file) {
  const auto parsed = Parse(file);
  return parsed.ok() ? "" : Message(parsed.status());
}

// The header of a tensor "x" of dtype F32 with this shape and these offsets, as JSON text.
std::string OneTensor(std::string_view shape, std::string_view offsets) {
  return StrCat(R"({"x":{"dtype":"F32","shape":)", shape, R"(,"data_offsets":)", offsets, "}}");
}

TEST(Safetensors, ReadsTensorsMetadataAndPadding) {
  const std::string file = File(R"({"__metadata__":{"format":"pt"},)"
                                R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                                R"("a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}}   )",
                                16);
  const auto parsed = Parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->metadata.at("format"), "pt");
  ASSERT_EQ(parsed->tensors.size(), 2u);
  const TensorView& b = parsed->tensors.at("b");
  EXPECT_EQ(b.dtype, DType::kBF16);
  EXPECT_EQ(b.shape, (Shape{2, 3}));
  EXPECT_EQ(b.data, reinterpret_cast<const std::byte*>(file.data()) + file.size() - 12);
  EXPECT_EQ(parsed->tensors.at("a").num_elements(), 1);
}

TEST(Safetensors, EmptyFilesAndEmptyTensorsAreLegal) {
  EXPECT_EQ(ErrorOf(File("{}", 0)), "");
  EXPECT_EQ(ErrorOf(File(OneTensor("[0]", "[0,0]"), 0)), "");
  EXPECT_EQ(ErrorOf(File(R"({"a":{"dtype":"F32","shape":[4,0],"data_offsets":[0,0]},)"
                         R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                         R"("c":{"dtype":"I64","shape":[0],"data_offsets":[4,4]},)"
                         R"("d":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})",
                         5)),
            "");
}

TEST(Safetensors, NamesWhatStandsInItsPlace) {
  EXPECT_THAT(ErrorOf("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
              AllOf(HasSubstr("Git LFS pointer"), HasSubstr("git lfs pull")));
  EXPECT_THAT(ErrorOf("<!DOCTYPE html><html>Not found</html>"),
              AllOf(HasSubstr("a text file"), HasSubstr("<!DOCTYPE html>")));
  EXPECT_THAT(ErrorOf("gone"), HasSubstr("a text file"));
  EXPECT_THAT(ErrorOf(std::string_view("PK\x03\x04\0\0\0\0\0\0", 10)), HasSubstr("pickle"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("file is 0 bytes"));
  EXPECT_THAT(ErrorOf(std::string_view("\1\0\0\0\0\0\0", 7)), HasSubstr("file is 7 bytes"));
}

TEST(Safetensors, RefusesBadHeaderLengths) {
  const std::string whole = File(OneTensor("[2]", "[0,8]"), 8);
  EXPECT_THAT(ErrorOf(whole.substr(0, 40)),
              HasSubstr(StrCat("file is 40 bytes but its header alone takes ", whole.size() - 8,
                               ": truncated download?")));
  std::string huge(16, '\0');
  std::memset(huge.data(), 0xFF, 8);
  EXPECT_THAT(ErrorOf(huge), HasSubstr("18446744073709551615 bytes; at most 100000000"));
  EXPECT_THAT(ErrorOf(File("", 0)), HasSubstr("does not start with '{'"));
  EXPECT_THAT(ErrorOf(File(" {}", 0)), HasSubstr("does not start with '{'"));
  // One byte over the limit, with all the bytes there.
  EXPECT_THAT(ErrorOf(File("{}" + std::string(100'000'000 - 1, ' '), 0)), HasSubstr("at most"));
  EXPECT_EQ(ErrorOf(File("{}" + std::string(100'000'000 - 2, ' '), 0)), "");
}

TEST(Safetensors, RefusesWhatIsNotStrictJson) {
  EXPECT_THAT(ErrorOf(File("{", 0)), HasSubstr("safetensors header: invalid JSON"));
  EXPECT_THAT(ErrorOf(File("{}{}", 0)), HasSubstr("invalid JSON"));
  EXPECT_THAT(ErrorOf(File("{\"\xFF\":{}}", 0)), HasSubstr("invalid JSON"));
  EXPECT_THAT(ErrorOf(File("{" + std::string(1000, '['), 0)), HasSubstr("invalid JSON"));
  EXPECT_THAT(ErrorOf(File(R"({"x":{"shape":[[0]]}})", 0)), HasSubstr("nested deeper"));
  EXPECT_THAT(ErrorOf(File(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                           R"("x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                           0)),
              HasSubstr(R"(duplicate key "x")"));
  std::string zeros = "0";
  for (int i = 1; i < 4'000'001; ++i) zeros += ",0";
  EXPECT_THAT(ErrorOf(File(R"({"x":[)" + zeros + "]}", 0)),
              HasSubstr("more than the 4000000 values"));
}

TEST(Safetensors, RefusesBadEntries) {
  const auto entry = [](std::string_view text) { return ErrorOf(File(text, 0)); };
  EXPECT_THAT(entry(R"({"x":3})"), HasSubstr(R"(tensor "x": must be an object, not an integer)"));
  EXPECT_THAT(entry(R"({"x":{"shape":[0],"data_offsets":[0,0]}})"), HasSubstr("\"dtype\""));
  EXPECT_THAT(entry(R"({"x":{"dtype":"F32","data_offsets":[0,0]}})"), HasSubstr("\"shape\""));
  EXPECT_THAT(entry(R"({"x":{"dtype":"F32","shape":[0]}})"), HasSubstr("\"data_offsets\""));
  EXPECT_THAT(entry(R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"scale":2}})"),
              HasSubstr(R"(unknown key "scale")"));
  EXPECT_THAT(entry(R"({"x":{"dtype":"F4","shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr(R"(unknown dtype "F4")"));
  EXPECT_THAT(entry(R"({"x":{"dtype":4,"shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("dtype must be a string"));
  EXPECT_THAT(entry(OneTensor("{}", "[0,0]")), HasSubstr("shape must be an array"));
  EXPECT_THAT(entry(OneTensor("[-1]", "[0,0]")), HasSubstr("shape must hold integers"));
  EXPECT_THAT(entry(OneTensor("[1.0]", "[0,4]")), HasSubstr("shape must hold integers"));
  EXPECT_THAT(entry(OneTensor("[18446744073709551615]", "[0,4]")), HasSubstr("shape must hold"));
  EXPECT_THAT(entry(OneTensor("[0]", "[0]")), HasSubstr("data_offsets must be [begin, end]"));
  EXPECT_THAT(entry(OneTensor("[0]", "[8,4]")), HasSubstr("begin ≤ end"));
  EXPECT_THAT(entry(OneTensor("[0]", "[0,\"4\"]")), HasSubstr("data_offsets must hold"));
}

TEST(Safetensors, SizesAreCheckedAgainstShapesWithoutOverflow) {
  EXPECT_THAT(ErrorOf(File(OneTensor("[3]", "[0,8]"), 8)),
              HasSubstr("data_offsets [0, 8] hold 8 bytes but F32 [3] takes 12"));
  EXPECT_THAT(ErrorOf(File(OneTensor("[4611686018427387904]", "[0,0]"), 0)),
              HasSubstr("overflows"));
  EXPECT_THAT(ErrorOf(File(OneTensor("[4294967296,4294967296]", "[0,0]"), 0)),
              HasSubstr("overflows"));
}

TEST(Safetensors, OffsetsCoverTheDataWithoutGapOrOverlap) {
  const auto two = [](std::string_view first, std::string_view second, size_t data_bytes) {
    return ErrorOf(File(StrCat(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)", first,
                               R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)", second, "}}"),
                        data_bytes));
  };
  EXPECT_EQ(two("[0,4]", "[4,8]", 8), "");
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "");
  EXPECT_THAT(two("[0,4]", "[5,9]", 9), HasSubstr(R"("b" begins at byte 5)"));
  EXPECT_THAT(two("[0,4]", "[3,7]", 7), HasSubstr("inside"));
  EXPECT_THAT(two("[0,4]", "[0,4]", 4), HasSubstr("inside"));
  EXPECT_THAT(two("[1,5]", "[5,9]", 9), HasSubstr(R"("a" begins at byte 1)"));
  EXPECT_THAT(two("[0,4]", "[4,8]", 9), HasSubstr("bytes after the last tensor"));
  EXPECT_THAT(two("[0,4]", "[9223372036854775803,9223372036854775807]", 8), HasSubstr("begins"));
}

TEST(Safetensors, SaysHowMuchOfATruncatedFileIsThere) {
  const std::string whole = File(OneTensor("[100]", "[0,400]"), 400);
  EXPECT_THAT(ErrorOf(std::string_view(whole).substr(0, whole.size() - 100)),
              HasSubstr(StrCat("file is ", whole.size() - 100, " bytes but its header describes ",
                               whole.size(), ": truncated download?")));
}

TEST(Safetensors, MetadataHoldsStringsOnly) {
  EXPECT_THAT(ErrorOf(File(R"({"__metadata__":[]})", 0)), HasSubstr("must be an object"));
  EXPECT_THAT(ErrorOf(File(R"({"__metadata__":{"k":1}})", 0)),
              HasSubstr(R"(__metadata__ "k" must be a string, not an integer)"));
}

TEST(Safetensors, LongNamesAreCutInMessages) {
  const std::string name(100'000, 'n');
  const std::string error = ErrorOf(File("{\"" + name + "\":1}", 0));
  EXPECT_THAT(error, HasSubstr("a name of 100000 bytes"));
  EXPECT_LT(error.size(), 400u);
}

class RealFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!FileExists(SharedPath("data"))) GTEST_SKIP() << SharedPath("data") << " is absent";
  }
  static StatusOr<SafetensorsFile> OpenAdapter(const std::string& name) {
    return SafetensorsFile::Open(SharedPath("data/adapters/weights/") + name +
                                 "/adapter_model.safetensors");
  }
};

TEST_F(RealFiles, WholeAdaptersOpen) {
  for (const char* name : {"qwen2.5-0.5b_r8_qv", "tinyllama_r4_emotion", "tinyllama_r4_keywords"}) {
    const auto file = OpenAdapter(name);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_GE(file->tensors().size(), 80u);
    for (const auto& [tensor, view] : file->tensors()) EXPECT_TRUE(AllFinite(view)) << tensor;
  }
  const auto file = OpenAdapter("tinyllama_r4_emotion");
  EXPECT_EQ(
      file->tensors().at("base_model.model.model.layers.21.self_attn.v_proj.lora_B.weight").shape,
      (Shape{256, 4}));
}

TEST_F(RealFiles, BrokenAdaptersAreNamed) {
  const auto pointer = OpenAdapter("LFS_POINTER_mistral-7b_r8");
  EXPECT_THAT(Message(pointer.status()),
              AllOf(HasSubstr("adapter_model.safetensors: "), HasSubstr("Git LFS pointer")));
  const auto truncated = OpenAdapter("TRUNCATED_qwen2.5-vl_r16");
  EXPECT_THAT(Message(truncated.status()),
              AllOf(HasSubstr("file is 262144 bytes but its header describes "),
                    HasSubstr(": truncated download?")));
}

}  // namespace
}  // namespace aril
