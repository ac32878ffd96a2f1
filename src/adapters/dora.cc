#include "adapters/dora.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "kernels/cpu/context.h"
#include "kernels/lora/lora.h"

namespace aril {
namespace {

using kernels::ConstMatrix;

// Rows of W that are converted and multiplied at a time.
constexpr int64_t kBlockRows = 64;
// Rows of the embedding likewise: they become columns, and a product adds up so many numbers.
constexpr int64_t kBlockTokens = 256;

std::vector<float> Floats(const WeightView& from, int64_t first, int64_t count) {
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

// |w + s·bA|, the length of a row of the adapted weight, from |w|²:
//   |w + s·bA|² = |w|² + 2s · b · (A w) + s² · b (A Aᵀ) bᵀ.
template <typename T>
double AdaptedLength(double squares, std::span<const float> b, const T* aw, const T* gram,
                     double scale) {
  const size_t rank = b.size();
  double cross = 0;
  double square = 0;
  for (size_t j = 0; j < rank; ++j) {
    cross += static_cast<double>(b[j]) * aw[j];
    double column = 0;
    for (size_t k = 0; k < rank; ++k) column += static_cast<double>(gram[j * rank + k]) * b[k];
    square += b[j] * column;
  }
  return std::sqrt(squares + 2 * scale * cross + scale * scale * square);
}

// Magnitudes become gains.
Status DivideBy(double length, int64_t output, float* magnitude) {
  *magnitude = static_cast<float>(*magnitude / length);
  if (std::isfinite(*magnitude)) return OkStatus();
  return InvalidArgument(StrCat("output ", output, " of the adapted weight has no length"));
}

// Columns [first, first + count) of a matrix: [rows, count].
std::vector<float> Columns(const TensorView& from, int64_t first, int64_t count) {
  const int64_t rows = from.shape[0];
  std::vector<float> columns(static_cast<size_t>(rows * count));
  for (int64_t r = 0; r < rows; ++r) {
    CopyAsFloat(from, r * from.shape[1] + first, count, columns.data() + r * count);
  }
  return columns;
}

// Rows [first, first + count), as columns: [cols, count].
std::vector<float> Transposed(const WeightView& from, int64_t first, int64_t count) {
  const int64_t cols = ShapeOf(from)[1];
  const std::vector<float> rows = Floats(from, first * cols, count * cols);
  std::vector<float> columns(rows.size());
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < count; ++r) {
      columns[static_cast<size_t>(c * count + r)] = rows[static_cast<size_t>(r * cols + c)];
    }
  }
  return columns;
}

void Add(const std::vector<float>& values, std::vector<double>* sums) {
  for (size_t i = 0; i < values.size(); ++i) (*sums)[i] += values[i];
}

}  // namespace

StatusOr<std::vector<float>> DoraGains(const DoraModule& module, kernels::Isa isa) {
  const Shape shape = ShapeOf(module.weight);
  const int64_t out = shape[0], in = shape[1];
  const int64_t rank = module.a.shape[0];
  ThreadPool threads(1);
  kernels::CpuContext context(threads, isa);
  const std::vector<float> a = Floats(module.a, 0, module.a.num_elements());
  const std::vector<float> gram = TimesA(context, Rows(a, in), a);  // A Aᵀ
  std::vector<float> gains = Floats(module.magnitude, 0, out);
  for (int64_t first = 0; first < out; first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, out - first);
    const std::vector<float> w = Floats(module.weight, first * in, rows * in);
    const std::vector<float> aw = TimesA(context, Rows(w, in), a);
    const std::vector<float> b = Floats(module.b, first * rank, rows * rank);
    for (int64_t r = 0; r < rows; ++r) {
      const double length = AdaptedLength(SumOfSquares(w.data() + r * in, in),
                                          {b.data() + r * rank, static_cast<size_t>(rank)},
                                          aw.data() + r * rank, gram.data(), module.scale);
      RETURN_IF_ERROR(DivideBy(length, first + r, &gains[static_cast<size_t>(first + r)]));
    }
  }
  return gains;
}

// W lies by inputs, so that all outputs' sums grow together, in double: a vocabulary is long.
StatusOr<std::vector<float>> DoraEmbeddingGains(const DoraModule& module, kernels::Isa isa) {
  const Shape shape = ShapeOf(module.weight);
  const int64_t vocab = shape[0], hidden = shape[1];
  const int64_t rank = module.a.shape[0];
  ThreadPool threads(1);
  kernels::CpuContext context(threads, isa);
  std::vector<double> squares(static_cast<size_t>(hidden));
  std::vector<double> aw(static_cast<size_t>(hidden * rank));  // [hidden, rank]
  std::vector<double> gram(static_cast<size_t>(rank * rank));
  for (int64_t first = 0; first < vocab; first += kBlockTokens) {
    const int64_t count = std::min(kBlockTokens, vocab - first);
    const std::vector<float> w = Transposed(module.weight, first, count);  // [hidden, count]
    const std::vector<float> a = Columns(module.a, first, count);          // [rank, count]
    Add(TimesA(context, Rows(w, count), a), &aw);
    Add(TimesA(context, Rows(a, count), a), &gram);
    for (int64_t h = 0; h < hidden; ++h) {
      squares[static_cast<size_t>(h)] += SumOfSquares(w.data() + h * count, count);
    }
  }
  const std::vector<float> b = Floats(module.b, 0, hidden * rank);
  std::vector<float> gains = Floats(module.magnitude, 0, hidden);
  for (int64_t h = 0; h < hidden; ++h) {
    const double length = AdaptedLength(squares[static_cast<size_t>(h)],
                                        {b.data() + h * rank, static_cast<size_t>(rank)},
                                        aw.data() + h * rank, gram.data(), module.scale);
    RETURN_IF_ERROR(DivideBy(length, h, &gains[static_cast<size_t>(h)]));
  }
  return gains;
}

}  // namespace aril
