#include "spec/int4_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Layout = Int4View::Layout;

// The tensors of one module "a" of 8 outputs and 64 inputs in groups of 32, all bytes 0, and their
// memory.
class Module {
 public:
  explicit Module(const Int4Spec& spec) : spec_(spec) {
    switch (spec.layout) {
      case Layout::kGptq:
        Add("a.qweight", DType::kI32, {8, 8});
        Add("a.qzeros", DType::kI32, {2, 1});
        Add("a.scales", DType::kF16, {2, 8});
        break;
      case Layout::kAwq:
        Add("a.qweight", DType::kI32, {64, 1});
        Add("a.qzeros", DType::kI32, {2, 1});
        Add("a.scales", DType::kF16, {2, 8});
        break;
      case Layout::kCompressed:
        Add("a.weight_packed", DType::kI32, {8, 8});
        Add("a.weight_scale", DType::kBF16, {8, 2});
        Add("a.weight_shape", DType::kI64, {2});
        Set<int64_t>("a.weight_shape", 0, 8);
        Set<int64_t>("a.weight_shape", 1, 64);
        break;
    }
  }

  void Add(const std::string& name, DType dtype, const Shape& shape) {
    TensorView& view = tensors[name] = {nullptr, dtype, shape};
    std::vector<std::byte>& bytes = memory_[name];
    bytes.assign(view.size_bytes(), std::byte{0});
    view.data = bytes.data();
  }

  template <typename T>
  void Set(const std::string& name, size_t index, T value) {
    std::memcpy(memory_.at(name).data() + index * sizeof(T), &value, sizeof(T));
  }

  // The error of taking it, or "".
  std::string Error() {
    const auto taken = TakeInt4Matrices(spec_, &tensors);
    return taken.ok() ? "" : Message(taken.status());
  }

  TensorMap tensors;

 private:
  Int4Spec spec_;
  std::map<std::string, std::vector<std::byte>> memory_;
};

constexpr Int4Spec kGptq = {.layout = Layout::kGptq, .group_size = 32, .zeros_less_one = true};
constexpr Int4Spec kAwq = {.layout = Layout::kAwq, .group_size = 32};
constexpr Int4Spec kCompressed = {
    .layout = Layout::kCompressed, .group_size = 32, .has_zeros = false};

Int4Spec WithOrder(Int4Spec spec) {
  spec.has_order = true;
  return spec;
}

TEST(Int4Checkpoint, TakesWhatAModuleConsistsOf) {
  for (const Int4Spec& spec : {kGptq, kAwq, kCompressed}) {
    Module module(spec);
    module.Add("a.bias", DType::kF16, {8});
    module.Add("b.weight", DType::kF16, {8, 8});
    const auto taken = TakeInt4Matrices(spec, &module.tensors);
    ASSERT_TRUE(taken.ok()) << taken.status();
    ASSERT_EQ(taken->size(), 1);
    const auto& [name, view] = *taken->begin();
    EXPECT_EQ(name, "a.weight");
    EXPECT_THAT(view.shape(), ElementsAre(8, 64));
    EXPECT_EQ(view.groups(), 2);
    EXPECT_EQ(view.order.data, nullptr);
    EXPECT_EQ(module.tensors.size(), 2);
  }
}

TEST(Int4Checkpoint, TakesAnOrderThatSaysNothing) {
  for (const Int4Spec& spec : {kGptq, WithOrder(kGptq)}) {
    Module module(spec);
    module.Add("a.g_idx", DType::kI32, {64});
    for (size_t input = 32; input < 64; ++input) module.Set<int32_t>("a.g_idx", input, 1);
    EXPECT_EQ(module.Error(), "");
    EXPECT_TRUE(module.tensors.empty());
  }
}

TEST(Int4Checkpoint, TakesGroupsOfInputsThatAreNoNeighbours) {
  for (const DType dtype : {DType::kI32, DType::kI64}) {
    Module module(WithOrder(kCompressed));
    module.Add("a.weight_g_idx", dtype, {64});
    for (size_t input = 1; input < 64; input += 2) {
      if (dtype == DType::kI32) {
        module.Set<int32_t>("a.weight_g_idx", input, 1);
      } else {
        module.Set<int64_t>("a.weight_g_idx", input, 1);
      }
    }
    const auto taken = TakeInt4Matrices(WithOrder(kCompressed), &module.tensors);
    ASSERT_TRUE(taken.ok()) << taken.status();
    const Int4View& view = taken->at("a.weight");
    EXPECT_EQ(view.GroupOf(7), 1);
    EXPECT_EQ(view.GroupOf(8), 0);
    const std::vector<int32_t> inputs = view.InputsByGroup();
    EXPECT_EQ(inputs[1], 2);
    EXPECT_EQ(inputs[31], 62);
    EXPECT_EQ(inputs[32], 1);
  }
}

// Of 0, 8, 1, … less 1 as one number.
TEST(Int4Checkpoint, TakesZeroPointsThatBorrow) {
  Int4Spec spec = kGptq;
  spec.zeros_borrow = true;
  Module module(spec);
  module.Set<uint32_t>("a.qzeros", 1, 0xF9876180u - 0x11111111u);
  const auto taken = TakeInt4Matrices(spec, &module.tensors);
  ASSERT_TRUE(taken.ok()) << taken.status();
  const Int4View& view = taken->at("a.weight");
  for (const auto& [row, zero] : {std::pair{0, 0}, {1, 8}, {2, 1}, {3, 6}, {7, 15}}) {
    EXPECT_EQ(view.Zero(row, 1), zero) << row;
  }
}

TEST(Int4Checkpoint, TakesAnOrderThatWasNotMadeForNone) {
  Module module(kCompressed);
  module.Add("a.weight_g_idx", DType::kI32, {64});
  for (size_t input = 0; input < 64; ++input) module.Set<int32_t>("a.weight_g_idx", input, -1);
  const auto taken = TakeInt4Matrices(kCompressed, &module.tensors);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->at("a.weight").order.data, nullptr);
}

TEST(Int4Checkpoint, TakesZeroPointsInBytes) {
  Module module(kCompressed);
  module.Add("a.weight_zero_point", DType::kI8, {8, 2});
  module.Set<int8_t>("a.weight_zero_point", 3, -8);
  module.Set<int8_t>("a.weight_zero_point", 4, 7);
  EXPECT_EQ(module.Error(), "");
  Module beyond(kCompressed);
  beyond.Add("a.weight_zero_point", DType::kI8, {8, 2});
  beyond.Set<int8_t>("a.weight_zero_point", 4, 8);
  EXPECT_THAT(beyond.Error(), HasSubstr("has the zero point 8 for output 2, expected -8 to 7"));
}

TEST(Int4Checkpoint, RefusesWhatIsNotAModule) {
  struct Case {
    Int4Spec spec;
    std::function<void(Module&)> damage;
    std::string expected;
  };
  const std::vector<Case> cases = {
      {kGptq, [](Module& m) { m.tensors.erase("a.scales"); },
       R"(tensor "a.scales" is missing beside "a.qweight")"},
      {kAwq, [](Module& m) { m.tensors.erase("a.qzeros"); }, R"(tensor "a.qzeros" is missing)"},
      {WithOrder(kGptq), [](Module&) {}, R"(tensor "a.g_idx" is missing)"},
      {kCompressed, [](Module& m) { m.tensors.erase("a.weight_shape"); },
       R"(tensor "a.weight_shape" is missing)"},
      {kGptq,
       [](Module& m) {
         m.Add("a.qweight", DType::kF16, {8, 8});
       },
       R"(tensor "a.qweight" has dtype F16, expected I32)"},
      {kGptq,
       [](Module& m) {
         m.Add("a.scales", DType::kI32, {2, 8});
       },
       R"(tensor "a.scales" has dtype I32, expected F16 or BF16 or F32)"},
      {kGptq, [](Module& m) { m.Add("a.qweight", DType::kI32, {64}); },
       R"(tensor "a.qweight" has shape [64], expected a matrix)"},
      {kGptq,
       [](Module& m) {
         m.Add("a.qweight", DType::kI32, {0, 8});
       },
       R"(tensor "a.qweight" has shape [0, 8], expected a matrix of a model's size)"},
      {kGptq,
       [](Module& m) {
         m.Add("a.scales", DType::kF16, {1, 8});
       },
       R"(tensor "a.scales" has shape [1, 8], expected [2, 8] as of "a.qweight" with groups of 32)"},
      {kAwq,
       [](Module& m) {
         m.Add("a.qzeros", DType::kI32, {2, 8});
       },
       R"(tensor "a.qzeros" has shape [2, 8], expected [2, 1])"},
      {kCompressed, [](Module& m) { m.Set<int64_t>("a.weight_shape", 1, 72); },
       R"(has shape [8, 8], expected that of "a.weight_shape", [8, 72], with 8 inputs in one)"},
      {kCompressed, [](Module& m) { m.Set<int64_t>("a.weight_shape", 0, -8); }, "[-8, 64]"},
      {kCompressed, [](Module& m) { m.Set<int64_t>("a.weight_shape", 1, INT64_MAX); },
       "expected that of"},
      {kCompressed,
       [](Module& m) {
         m.Add("a.weight_zero_point", DType::kI32, {8, 2});
       },
       R"(tensor "a.weight_zero_point" has shape [8, 2], expected [1, 2])"},
      {kGptq,
       [](Module& m) {
         m.Add("a.weight", DType::kF16, {8, 64});
       },
       R"(tensor "a.qweight" stands for "a.weight", which is there without it, too)"},
      {kGptq, [](Module& m) { m.Set<uint32_t>("a.qzeros", 1, 0xF0); },
       R"(tensor "a.qzeros" has 15 for output 1, a zero point less 1 that programs take for)"},
      {kGptq, [](Module& m) { m.Add("a.g_idx", DType::kI32, {64}); },
       R"(tensor "a.g_idx" says that input 32 is of group 0, but it has 32 already)"},
      {kGptq,
       [](Module& m) {
         m.Add("a.g_idx", DType::kI32, {64});
         m.Set<int32_t>("a.g_idx", 5, 2);
       },
       R"(tensor "a.g_idx" says that input 5 is of group 2, but there is none)"},
      {kGptq,
       [](Module& m) {
         m.Add("a.g_idx", DType::kI32, {64});
         m.Set<int32_t>("a.g_idx", 0, -1);
       },
       "input 0 is of group -1, but there is none"},
      {kGptq, [](Module& m) { m.Add("a.g_idx", DType::kI32, {32}); },
       R"(tensor "a.g_idx" has shape [32], expected [64])"},
  };
  for (const Case& c : cases) {
    Module module(c.spec);
    c.damage(module);
    EXPECT_THAT(module.Error(), HasSubstr(c.expected));
  }
}

}  // namespace
}  // namespace aril
