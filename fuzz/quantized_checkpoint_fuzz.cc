// TakeInt4Matrices, TakeInt8Matrices, TakeFloat8Matrices and TakeCodebook4Matrices on any tensors:
// what they accept can be read to the last value.

#include <span>
#include <vector>

#include "base/check.h"
#include "spec/codebook4_checkpoint.h"
#include "spec/float8_checkpoint.h"
#include "spec/int4_checkpoint.h"
#include "spec/int8_checkpoint.h"
#include "spec/mxfp4_checkpoint.h"

namespace {

using Layout = aril::Int4View::Layout;

// The largest input has far fewer values than this.
constexpr int64_t kMaxValues = int64_t{1} << 24;

void ReadAll(const aril::Int4View& view) {
  CHECK(view.rows > 0 && view.cols > 0 && view.rows * view.cols < kMaxValues);
  std::vector<float> values(static_cast<size_t>(view.cols));
  for (int64_t row = 0; row < view.rows; ++row) {
    aril::CopyAsFloat(view, row * view.cols, view.cols, values.data());
    for (int64_t group = 0; group < view.groups(); ++group) {
      const int zero = view.Zero(row, group);
      CHECK(zero >= 0 && zero <= 15);
    }
  }
  const aril::Int4View last = view.Rows(view.rows - 1, 1);
  CHECK(last.HasSameGroupsAs(view));
  CHECK_EQ(last.Zero(0, view.groups() - 1), view.Zero(view.rows - 1, view.groups() - 1));
  const std::vector<int32_t> inputs = view.InputsByGroup();
  for (size_t i = 0; i < inputs.size(); ++i) {
    CHECK_EQ(view.GroupOf(inputs[i]), static_cast<int64_t>(i) / view.group_size);
  }
}

void ReadAll(const aril::Float8View& view) {
  CHECK(view.rows() > 0 && view.cols() > 0 && view.rows() * view.cols() < kMaxValues);
  std::vector<float> values(static_cast<size_t>(view.rows() * view.cols()));
  aril::CopyAsFloat(view, 0, view.rows() * view.cols(), values.data());
  const float last = view.Rows(view.rows() - 1, 1).Scale(0, view.blocks() - 1);
  const float same = view.Scale(view.rows() - 1, view.blocks() - 1);
  CHECK(last == same || last != last);
}

void ReadAll(const aril::Codebook4View& view) {
  CHECK(view.rows > 0 && view.cols > 0 && view.rows * view.cols < kMaxValues);
  std::vector<float> values(static_cast<size_t>(view.rows * view.cols));
  aril::CopyAsFloat(view, 0, view.rows * view.cols, values.data());
  const aril::Codebook4View last = view.Rows(view.rows - 1, 1);
  CHECK_EQ(last.BlockOf(0, view.cols - 1), view.BlockOf(view.rows - 1, view.cols - 1));
}

void ReadAll(const aril::Int8View& view) {
  CHECK(view.rows() > 0 && view.cols() > 0 && view.rows() * view.cols() < kMaxValues);
  std::vector<float> values(static_cast<size_t>(view.rows() * view.cols()));
  aril::CopyAsFloat(view, 0, view.rows() * view.cols(), values.data());
  const aril::Int8View last = view.Rows(view.rows() - 1, 1);
  CHECK_EQ(last.Row(0)[view.cols() - 1], view.Row(view.rows() - 1)[view.cols() - 1]);
}

template <typename Map>
void ReadAll(const aril::StatusOr<Map>& matrices) {
  if (!matrices.ok()) return;
  for (const auto& [name, view] : *matrices) ReadAll(view);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed = aril::ParseSafetensors(std::as_bytes(std::span(data, size)));
  if (!parsed.ok()) return 0;
  for (const aril::Int4Spec& spec :
       {aril::Int4Spec{.layout = Layout::kGptq, .group_size = 32, .zeros_less_one = true},
        aril::Int4Spec{.layout = Layout::kGptq, .has_order = true},
        aril::Int4Spec{.layout = Layout::kAwq, .group_size = 32},
        aril::Int4Spec{.layout = Layout::kCompressed, .group_size = 32, .has_zeros = false},
        aril::Int4Spec{.layout = Layout::kCompressed}}) {
    aril::TensorMap tensors = parsed->tensors;
    ReadAll(aril::TakeInt4Matrices(spec, &tensors));
  }
  for (const aril::Float8Spec& spec :
       {aril::Float8Spec{}, aril::Float8Spec{.block = {{.outputs = 2, .inputs = 3}}}}) {
    aril::TensorMap tensors = parsed->tensors;
    ReadAll(aril::TakeFloat8Matrices(spec, &tensors));
  }
  aril::TensorMap tensors = parsed->tensors;
  ReadAll(aril::TakeInt8Matrices(&tensors));
  tensors = parsed->tensors;
  ReadAll(aril::TakeCodebook4Matrices(&tensors));
  tensors = parsed->tensors;
  aril::ModelSpec gpt_oss;
  gpt_oss.num_layers = 1;
  gpt_oss.hidden_size = gpt_oss.intermediate_size = 32;
  gpt_oss.experts = aril::ExpertsSpec{.count = 2, .per_token = 1, .is_gpt_oss = true};
  ReadAll(aril::TakeMxfp4Matrices(gpt_oss, &tensors));
  return 0;
}
