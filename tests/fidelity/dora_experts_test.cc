// DoRA on a mixture's experts and router, for which peft has no golden any more: the same as LoRA
// on a base model whose rows have the lengths that DoRA has learned.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "adapters/test_support.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"
#include "support/engine_fixture.h"

namespace aril {
namespace {

const std::string kModel = SourcePath("tests/goldens/qwen3-moe-f32");
constexpr char kAdapter[] = "modules-r4";
constexpr double kScale = 6.0 / 4;  // its lora_alpha over its rank
constexpr char kWeights[] = "adapter_model.safetensors";

std::vector<float> FloatsOf(const EditableTensors::Tensor& tensor) {
  CHECK(tensor.dtype == DType::kF32);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// By which an adapted weight's row becomes longer: powers of two, with which products are exact.
float Factor(int64_t row) {
  constexpr float kFactors[] = {0.5f, 1, 2};
  return kFactors[row % 3];
}

void ScaleRows(EditableTensors::Tensor& tensor) {
  std::vector<float> values = FloatsOf(tensor);
  const int64_t cols = tensor.shape[1];
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.Set(i, values[i] * Factor(static_cast<int64_t>(i) / cols));
  }
}

// [out]: the lengths of the rows of W + s · B A, times their factors.
EditableTensors::Tensor Magnitude(const EditableTensors::Tensor& w,
                                  const EditableTensors::Tensor& a,
                                  const EditableTensors::Tensor& b) {
  const std::vector<float> ws = FloatsOf(w), as = FloatsOf(a), bs = FloatsOf(b);
  const auto out = static_cast<size_t>(w.shape[0]), in = static_cast<size_t>(w.shape[1]);
  const auto rank = static_cast<size_t>(a.shape[0]);
  auto magnitude = EditableTensors::Tensor::Filled({w.shape[0]}, 0);
  for (size_t o = 0; o < out; ++o) {
    double squares = 0;
    for (size_t i = 0; i < in; ++i) {
      double value = ws[o * in + i];
      for (size_t j = 0; j < rank; ++j) {
        value += kScale * static_cast<double>(bs[o * rank + j]) * as[j * in + i];
      }
      squares += value * value;
    }
    magnitude.Set(o, static_cast<float>(std::sqrt(squares) * Factor(static_cast<int64_t>(o))));
  }
  return magnitude;
}

std::vector<std::vector<float>> Logits(const std::string& model_dir,
                                       const std::string& adapter_dir) {
  const auto runner = OpenRunner({.model_dir = model_dir, .adapter_dirs = {adapter_dir}});
  CHECK(runner != nullptr);
  return TeacherForcedLogits(runner->engine(), {3, 17, 5, 40, 11, 2, 29}, {0, 3, 6},
                             {{.id = AdapterId(0)}});
}

double LargestDifference(const std::vector<std::vector<float>>& a,
                         const std::vector<std::vector<float>>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(a[i][j]) - b[i][j]));
    }
  }
  return largest;
}

TEST(DoraExperts, AreLoraOnRowsOfOtherLengths) {
  constexpr std::string_view kPrefix = "base_model.model.", kOfA = ".lora_A.weight";
  const TestDir base(kModel), dora(kModel + "/adapters/" + kAdapter);
  const TestDir lora(kModel + "/adapters/" + kAdapter);
  ReplaceInFile(dora / "adapter_config.json", "\"use_dora\": false", "\"use_dora\": true");
  int num_modules = 0;
  EditTensors(base / "model.safetensors", [&](auto& weights) {
    EditTensors(dora / kWeights, [&](auto& tensors) {
      const auto adapter = tensors;
      for (const auto& [name, a] : adapter) {
        if (!name.ends_with(kOfA)) continue;
        const std::string module = name.substr(0, name.size() - kOfA.size());
        EditableTensors::Tensor& w = weights.at(module.substr(kPrefix.size()) + ".weight");
        tensors[module + ".lora_magnitude_vector"] =
            Magnitude(w, a, adapter.at(module + ".lora_B.weight"));
        ScaleRows(w);
        ++num_modules;
      }
    });
  });
  EXPECT_EQ(num_modules, 2 * (4 + 1 + 3 * 7)) << "attention, router and experts of two layers";
  EditTensors(lora / kWeights, [](auto& tensors) {
    for (auto& [name, tensor] : tensors) {
      if (name.find(".lora_B.") != std::string::npos) ScaleRows(tensor);
    }
  });
  const auto expected = Logits(base.path(), lora.path());
  const auto found = Logits(kModel, dora.path());
  // float32's own noise is some 1e-5 on these logits (cases.json).
  EXPECT_LT(LargestDifference(found, expected), 2e-4);
  const auto without = Logits(kModel, kModel + "/adapters/" + kAdapter);
  EXPECT_GT(LargestDifference(found, without), 0.5);
}

}  // namespace
}  // namespace aril
