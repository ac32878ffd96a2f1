#include "spec/codebook4_checkpoint.h"

#include <list>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kState[] = "a.weight.quant_state.bitsandbytes__nf4";

class Codebook4CheckpointTest : public ::testing::Test {
 protected:
  Codebook4CheckpointTest() {
    for (size_t i = 0; i < codebook_.size(); ++i) codebook_[i] = static_cast<float>(i);
    tensors_["a.weight"] = View(codes_, DType::kU8, {4, 1});
    tensors_["a.weight.absmax"] = View(scales_, DType::kF32, {2});
    tensors_["a.weight.quant_map"] = View(codebook_, DType::kF32, {16});
    SetState(R"({"quant_type": "nf4", "blocksize": 4, "dtype": "bfloat16", "shape": [2, 4]})");
    tensors_["a.bias"] = View(scales_, DType::kF32, {2});
    tensors_["b.weight"] = View(scales_, DType::kF32, {1, 2});
  }
  template <typename T>
  static TensorView View(const std::vector<T>& values, DType dtype, Shape shape) {
    return {reinterpret_cast<const std::byte*>(values.data()), dtype, std::move(shape)};
  }
  void SetState(const std::string& json, const std::string& name = kState) {
    states_.emplace_back(json.begin(), json.end());
    tensors_[name] = View(states_.back(), DType::kU8, {std::ssize(states_.back())});
  }
  void Nest() {
    tensors_["a.weight.absmax"] = View(bytes_, DType::kU8, {2});
    tensors_["a.weight.nested_absmax"] = View(scales_, DType::kF32, {1});
    tensors_["a.weight.nested_quant_map"] = View(bytes_codebook_, DType::kF32, {256});
    SetState(R"({"quant_type": "nf4", "blocksize": 4, "dtype": "bfloat16", "shape": [2, 4],
                 "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.5})");
  }
  // All elements of "a.weight".
  std::vector<float> Values() {
    const auto matrices = TakeCodebook4Matrices(&tensors_);
    EXPECT_TRUE(matrices.ok()) << matrices.status();
    if (!matrices.ok()) return {};
    EXPECT_EQ(matrices->size(), 1u);
    std::vector<float> values(8);
    CopyAsFloat(matrices->at("a.weight"), 0, 8, values.data());
    return values;
  }
  std::string Error() {
    TensorMap tensors = tensors_;
    return Message(TakeCodebook4Matrices(&tensors).status());
  }

  const std::vector<uint8_t> codes_ = {0x01, 0x23, 0x45, 0x67}, bytes_ = {0, 2};
  const std::vector<float> scales_ = {1, 10};
  const std::vector<float> bytes_codebook_ = std::vector<float>(256, 2);
  std::vector<float> codebook_ = std::vector<float>(16);
  std::list<std::vector<uint8_t>> states_;
  TensorMap tensors_;
};

TEST_F(Codebook4CheckpointTest, TakesWhatAModuleConsistsOf) {
  EXPECT_THAT(Values(), ElementsAre(0, 1, 2, 3, 40, 50, 60, 70));
  std::vector<std::string> left;
  for (const auto& [name, tensor] : tensors_) left.push_back(name);
  EXPECT_THAT(left, ElementsAre("a.bias", "b.weight"));
}

TEST_F(Codebook4CheckpointTest, ScalesMayBeBytes) {
  Nest();
  EXPECT_THAT(Values(), ElementsAre(0, 2.5, 5, 7.5, 10, 12.5, 15, 17.5));
}

TEST_F(Codebook4CheckpointTest, TheStateIsOfEitherType) {
  tensors_.erase(kState);
  SetState(R"({"blocksize": 8, "shape": [2, 4]})", "a.weight.quant_state.bitsandbytes__fp4");
  tensors_["a.weight.absmax"].shape = {1};
  EXPECT_THAT(Values(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// As FSDP stores them.
TEST_F(Codebook4CheckpointTest, CodesMayBeSaidToBeNumbers) {
  tensors_["a.weight"] = View(codes_, DType::kBF16, {2, 1});
  EXPECT_THAT(Values(), ElementsAre(0, 1, 2, 3, 40, 50, 60, 70));
}

TEST_F(Codebook4CheckpointTest, ErrorsNameTheTensor) {
  const TensorMap good = tensors_;
  for (const char* name : {"a.weight", "a.weight.quant_map"}) {
    tensors_ = good;
    tensors_.erase(name);
    EXPECT_THAT(Error(),
                HasSubstr('"' + std::string(name) + R"(" is missing beside "a.weight.absmax")"));
  }
  tensors_ = good;
  tensors_.erase(kState);
  EXPECT_THAT(Error(), HasSubstr(R"(neither tensor "a.weight.quant_state.bitsandbytes__nf4" nor )"
                                 R"("a.weight.quant_state.bitsandbytes__fp4" is there beside)"));
  tensors_ = good;
  tensors_["a.weight"].shape = {3, 1};
  EXPECT_THAT(Error(),
              HasSubstr(R"("a.weight" has shape [3, 1], expected 4 bytes, as of [2, 4] in )"
                        "its quant_state"));
  tensors_ = good;
  tensors_["a.weight"].dtype = DType::kBool;
  EXPECT_THAT(Error(), HasSubstr(R"("a.weight" has dtype BOOL)"));
  tensors_ = good;
  tensors_["a.weight.absmax"].shape = {1};
  EXPECT_THAT(Error(),
              HasSubstr(R"("a.weight.absmax" has shape [1], expected [2], as of [2, 4] in )"
                        "blocks of 4"));
  tensors_ = good;
  tensors_["a.weight.quant_map"].shape = {15};
  EXPECT_THAT(Error(), HasSubstr(R"("a.weight.quant_map" has shape [15], expected [16])"));
  Nest();
  tensors_["a.weight.absmax"] = View(scales_, DType::kF32, {2});
  tensors_["a.weight.quant_map"].shape = {16};
  EXPECT_THAT(Error(), HasSubstr(R"("a.weight.absmax" has dtype F32, expected U8)"));
  Nest();
  tensors_["a.weight.nested_absmax"].shape = {2};
  EXPECT_THAT(Error(), HasSubstr(R"("a.weight.nested_absmax" has shape [2], expected [1] as of )"
                                 R"("a.weight.absmax" in blocks of 256)"));
  Nest();
  tensors_.erase("a.weight.nested_quant_map");
  EXPECT_THAT(Error(), HasSubstr(R"("a.weight.nested_quant_map" is missing)"));
}

TEST_F(Codebook4CheckpointTest, AStateThatCannotBeReadIsRefused) {
  const auto error_of = [&](const std::string& json) {
    SetState(json);
    return Error();
  };
  const std::string tensor = R"(tensor "a.weight.quant_state.bitsandbytes__nf4": )";
  EXPECT_THAT(error_of("{"), HasSubstr(tensor));
  EXPECT_THAT(error_of("[]"), HasSubstr(tensor + "expected an object"));
  EXPECT_THAT(error_of(R"({"shape": [2, 4]})"), HasSubstr(R"("blocksize")"));
  EXPECT_THAT(error_of(R"({"blocksize": 0, "shape": [2, 4]})"), HasSubstr(R"("blocksize" is 0)"));
  for (const char* shape : {"null", "[8]", "[2, -4]", "[2, 4.0]", "[2, 4294967296]", "[0, 4]"}) {
    EXPECT_THAT(error_of(R"({"blocksize": 4, "shape": )" + std::string(shape) + "}"),
                HasSubstr(R"("shape")"))
        << shape;
  }
  EXPECT_THAT(error_of(std::string(4097, ' ')), HasSubstr("expected at most 4096 bytes"));
  Nest();
  EXPECT_THAT(error_of(R"({"blocksize": 4, "shape": [2, 4], "nested_offset": 1})"),
              HasSubstr(R"("nested_blocksize")"));
  EXPECT_THAT(error_of(R"({"blocksize": 4, "shape": [2, 4], "nested_blocksize": 256})"),
              HasSubstr(R"("nested_offset")"));
  EXPECT_THAT(error_of(R"({"blocksize": 4, "shape": [2, 4], "nested_blocksize": 256,
                           "nested_offset": 1e39})"),
              HasSubstr(R"("nested_offset")"));
}

}  // namespace
}  // namespace aril
