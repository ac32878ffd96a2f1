#include "adapters/dora.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "kernels/cpu/context.h"
#include "kernels/lora/lora.h"

namespace aril {
namespace {

using kernels::ConstMatrix;

// Rows of W that are converted and multiplied at a time.
constexpr int64_t kBlockRows = 64;

std::vector<float> Floats(const TensorView& from, int64_t first, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  CopyAsFloat(from, first, count, values.data());
  return values;
}

// In float32: the file's values, exactly.
ConstMatrix Rows(const std::vector<float>& values, int64_t cols) {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::kF32,
          static_cast<int64_t>(values.size()) / cols, cols, cols};
}

// x [rows, in] · Aᵀ → [rows, rank]
std::vector<float> TimesA(kernels::CpuContext& context, const ConstMatrix& x,
                          const std::vector<float>& a) {
  const auto rank = static_cast<int32_t>(static_cast<int64_t>(a.size()) / x.cols);
  const kernels::MatrixRun run{reinterpret_cast<const std::byte*>(a.data()), 0, rank};
  const kernels::LoraWeights weights{
      .rank = rank, .a = {{&run, 1}, x.cols * static_cast<int64_t>(sizeof(float))}, .b = {}};
  const kernels::LoraSegment segment{0, static_cast<int32_t>(x.rows), {&weights, 1}};
  const kernels::LoraTarget target{0, 0};
  std::vector<float> v(static_cast<size_t>(x.rows * rank));
  kernels::LoraShrink(context, x, {{&segment, 1}, {&target, 1}, DType::kF32}, v);
  return v;
}

double SumOfSquares(const float* values, int64_t count) {
  constexpr int64_t kLanes = 16;  // independent sums, which the compiler keeps in vectors
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += values[i + lane] * values[i + lane];
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

}  // namespace

// |W + s·BA|² = |W|² + 2s · B · (W Aᵀ) + s² · B (A Aᵀ) Bᵀ, row by row.
StatusOr<std::vector<float>> DoraGains(const DoraModule& module, kernels::Isa isa) {
  const int64_t out = module.weight.shape[0];
  const int64_t in = module.weight.shape[1];
  const auto rank = static_cast<size_t>(module.a.shape[0]);
  ThreadPool threads(1);
  kernels::CpuContext context(threads, isa);
  const std::vector<float> a = Floats(module.a, 0, module.a.num_elements());
  const std::vector<float> gram = TimesA(context, Rows(a, in), a);  // A Aᵀ
  std::vector<float> gains = Floats(module.magnitude, 0, out);
  for (int64_t first = 0; first < out; first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, out - first);
    const std::vector<float> w = Floats(module.weight, first * in, rows * in);
    const std::vector<float> wa = TimesA(context, Rows(w, in), a);
    const std::vector<float> b =
        Floats(module.b, first * static_cast<int64_t>(rank), rows * static_cast<int64_t>(rank));
    for (int64_t r = 0; r < rows; ++r) {
      const float* b_row = b.data() + static_cast<size_t>(r) * rank;
      double cross = 0;
      double square = 0;
      for (size_t j = 0; j < rank; ++j) {
        cross += static_cast<double>(b_row[j]) * wa[static_cast<size_t>(r) * rank + j];
        double column = 0;
        for (size_t k = 0; k < rank; ++k)
          column += static_cast<double>(gram[j * rank + k]) * b_row[k];
        square += b_row[j] * column;
      }
      const double length =
          std::sqrt(SumOfSquares(w.data() + r * in, in) + 2 * module.scale * cross +
                    module.scale * module.scale * square);
      float& gain = gains[static_cast<size_t>(first + r)];
      gain = static_cast<float>(gain / length);
      if (!std::isfinite(gain)) {
        return InvalidArgument(StrCat("row ", first + r, " of the adapted weight has no length"));
      }
    }
  }
  return gains;
}

}  // namespace aril
