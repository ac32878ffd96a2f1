#include <algorithm>
#include <cmath>

#include "kernels/gated_delta/gated_delta.h"

namespace aril::kernels {
namespace {

constexpr double kEps = 0x1p-24;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double SiluRef(double x) { return x * Sigmoid(x); }

double SumOfSquares(const double* x, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += x[i] * x[i];
  return sum;
}

std::vector<double> Convolved(MatrixView<const float> in, const DeltaCall& call,
                              const DeltaShape& shape, int64_t row) {
  std::vector<double> out(static_cast<size_t>(shape.num_channels()));
  for (int64_t c = 0; c < shape.num_channels(); ++c) {
    double sum = 0;
    for (int64_t i = 0; i < shape.conv_size; ++i) {
      const int64_t seen = row - (shape.conv_size - 1) + i;
      if (seen >= 0) sum += double{in.row(seen)[c]} * call.conv[i * shape.num_channels() + c];
    }
    out[static_cast<size_t>(c)] = SiluRef(sum);
  }
  for (int64_t head = 0; head < 2 * shape.num_key_heads; ++head) {
    double* const x = out.data() + head * shape.key_dim;
    const double length = std::sqrt(SumOfSquares(x, shape.key_dim) + 1e-6);
    const bool is_query = head < shape.num_key_heads;
    const double scale = is_query ? 1 / std::sqrt(static_cast<double>(shape.key_dim)) : 1;
    for (int64_t i = 0; i < shape.key_dim; ++i) x[i] *= scale / length;
  }
  return out;
}

// One value head.
class Head {
 public:
  explicit Head(const DeltaShape& shape)
      : shape_(shape),
        s_(static_cast<size_t>(shape.key_dim * shape.value_dim)),
        magnitudes_(static_cast<size_t>(shape.value_dim)),
        errors_(magnitudes_) {}

  // Goes on by one token.
  void Advance(const double* k, const double* v, double decay, double beta) {
    for (int64_t j = 0; j < shape_.value_dim; ++j) {
      double seen = 0;
      for (int64_t i = 0; i < shape_.key_dim; ++i) seen += decay * At(i, j) * k[i];
      const double delta = beta * (v[j] - seen);
      for (int64_t i = 0; i < shape_.key_dim; ++i) At(i, j) = decay * At(i, j) + k[i] * delta;
      // |k| is 1, and a column's error does not grow by being multiplied by 1 - beta k kᵀ.
      const auto column = static_cast<size_t>(j);
      errors_[column] = decay * errors_[column] +
                        Roundings() * (decay * magnitudes_[column] + std::fabs(v[j])) * kEps;
      magnitudes_[column] = decay * magnitudes_[column] + std::fabs(v[j]);
    }
  }

  // Sᵀq and its norm, gated; and how far rounding may go.
  void Read(const double* q, const float* z, const DeltaCall& call, double* out,
            double* tolerance) {
    for (int64_t j = 0; j < shape_.value_dim; ++j) {
      for (int64_t i = 0; i < shape_.key_dim; ++i) out[j] += At(i, j) * q[i];
    }
    const double mean = SumOfSquares(out, shape_.value_dim) / static_cast<double>(shape_.value_dim);
    const double rms = std::sqrt(mean + call.norm_eps);
    double widest = 0;
    for (size_t j = 0; j < errors_.size(); ++j) {
      const double error = errors_[j] + Roundings() * magnitudes_[j] * kEps;
      widest = std::max(widest, error / std::sqrt(static_cast<double>(shape_.key_dim)));
    }
    for (int64_t j = 0; j < shape_.value_dim; ++j) {
      const double factor = call.norm[j] / rms * SiluRef(z[j]);
      const double of_rms = std::fabs(out[j]) / rms;
      out[j] *= factor;
      tolerance[j] = std::fabs(factor) * widest * (1 + of_rms) +
                     std::fabs(out[j]) * (static_cast<double>(shape_.value_dim) + 16) * kEps +
                     1e-30;
    }
  }

 private:
  double& At(int64_t i, int64_t j) { return s_[static_cast<size_t>(i * shape_.value_dim + j)]; }
  // Of a sum over keys, and of what was done to q, k and v before: their convolution and SiLU, and
  // the squares under q's and k's roots.
  double Roundings() const {
    return 2.5 * static_cast<double>(shape_.key_dim) + 3 * static_cast<double>(shape_.conv_size) +
           40;
  }

  const DeltaShape& shape_;
  std::vector<double> s_;           // [key_dim, value_dim]
  std::vector<double> magnitudes_;  // [value_dim]: bounds of columns' lengths
  std::vector<double> errors_;      // and of those of their errors
};

}  // namespace

DeltaReference GatedDeltaRef(MatrixView<const float> in, const DeltaCall& call,
                             const DeltaShape& shape) {
  const int64_t heads = shape.num_value_heads;
  std::vector<Head> states(static_cast<size_t>(heads), Head(shape));
  const auto size = static_cast<size_t>(in.rows * shape.value_size());
  DeltaReference result{std::vector<double>(size), std::vector<double>(size)};
  for (int64_t row = 0; row < in.rows; ++row) {
    const std::vector<double> qkv = Convolved(in, call, shape, row);
    const float* const z = in.row(row) + shape.num_channels();
    const float* const b = z + shape.value_size();
    for (int64_t h = 0; h < heads; ++h) {
      const double softplus = std::log1p(std::exp(double{b[heads + h]} + call.dt_bias[h]));
      const double* const q = qkv.data() + h / (heads / shape.num_key_heads) * shape.key_dim;
      Head& state = states[static_cast<size_t>(h)];
      state.Advance(q + shape.key_size(), qkv.data() + 2 * shape.key_size() + h * shape.value_dim,
                    std::exp(-call.decay[h] * softplus), Sigmoid(b[h]));
      const int64_t first = row * shape.value_size() + h * shape.value_dim;
      state.Read(q, z + h * shape.value_dim, call, result.out.data() + first,
                 result.tolerance.data() + first);
    }
  }
  return result;
}

}  // namespace aril::kernels
