// RMSNorm, gated activations, the soft cap, gates of heads and the rotary embedding on CUDA, in the
// emulator and on a GPU, against their oracles.

#include <cmath>

#include "gtest/gtest.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/activation_cuda.h"
#include "kernels/activation/activation_test_support.h"
#include "kernels/cuda/test_support.h"
#include "kernels/norm/norm.h"
#include "kernels/norm/norm_cuda.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/rope/test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 23;
constexpr DType kOutputs[] = {DType::kF32, DType::kBF16, DType::kF16};

// Rounding of the result to its dtype, on top of `fp32_steps` rounded fp32 operations.
double Tolerance(DType dtype, double magnitude, double fp32_steps) {
  return std::fabs(magnitude) * (EpsOf(dtype) + fp32_steps * kFloatEps) * 2;
}

class CudaElementwise : public CudaTest {};

// As norm_cuda.h says: by 256 threads.
float SquaresInOrder(const float* row, int32_t size) {
  float squares[256] = {};
  for (int32_t i = 0; i < size; ++i) squares[i % 256] = std::fma(row[i], row[i], squares[i % 256]);
  float sum = 0;
  for (size_t warp = 0; warp < 8; ++warp) {
    float* lanes = squares + 32 * warp;
    for (size_t count = 16; count > 0; count /= 2) {
      for (size_t lane = 0; lane < count; ++lane) lanes[lane] += lanes[lane + count];
    }
    sum += lanes[0];
  }
  return sum;
}

// What a norm leaves: rows of `out`, and the residual with what was added.
struct Normed {
  std::vector<std::byte> out;
  std::vector<float> sum;
};

// `weights` [2, size]: of the norm, and of what is added where that is normed.
Normed RunNorm(CudaDevice& device, DType dtype, const TestMatrix& residual, const TestMatrix& add,
               const TestMatrix& weights, bool norms_add) {
  const auto rows = static_cast<int32_t>(residual.view().rows);
  const auto size = static_cast<int32_t>(residual.view().cols);
  const DeviceBuffer r = Upload(device, Floats(residual)), a = Upload(device, Floats(add)),
                     w = Upload(device, Floats(weights));
  const DeviceBuffer out = Allocate(device, static_cast<size_t>(rows * size) * SizeOf(dtype));
  Require(
      device.Check(device.kernels().add_rms_norm(
                       device.context(), dtype,
                       {.residual = r.as<float>(),
                        .residual_stride = residual.view().stride,
                        .add = a.as<float>(),
                        .add_stride = add.view().stride,
                        .add_weight = norms_add ? w.as<float>() + weights.view().stride : nullptr,
                        .weight = w.as<float>(),
                        .eps = 1e-5f,
                        .rows = rows,
                        .size = size,
                        .out = out.data(),
                        .out_stride = size}),
                   "norm"));
  return {Download<std::byte>(device, out), Download<float>(device, r)};
}

// Around what threads hold in registers, too.
constexpr int32_t kNormSizes[] = {1, 17, 256, 700, 4096, 4097, 8192, 8193, 9500};

TEST_P(CudaElementwise, AddsNormalizesAndMatchesTheReference) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kRows = 3;
  for (const DType dtype : kOutputs) {
    for (const int32_t size : kNormSizes) {
      const TestMatrix residual(DType::kF32, kRows, size, 2.0, random),
          add(DType::kF32, kRows, size, 1.0, random), weight(DType::kF32, 2, size, 1.0, random);
      Normed first;
      for (const auto& device : devices()) {
        const Normed normed = RunNorm(*device, dtype, residual, add, weight, /*norms_add=*/false);
        if (first.out.empty()) first = normed;
        ASSERT_EQ(normed.out, first.out) << "two runs differ";
      }
      for (int32_t row = 0; row < kRows; ++row) {
        const float* sum = &first.sum[static_cast<size_t>(row * residual.view().stride)];
        std::vector<double> expected(static_cast<size_t>(size));
        RmsNormRef(sum, weight.floats().data, 1e-5, size, expected.data());
        const float mean = SquaresInOrder(sum, size) / static_cast<float>(size);
        const float scale = 1.0f / std::sqrt(mean + 1e-5f);
        for (size_t c = 0; c < expected.size(); ++c) {
          ASSERT_EQ(sum[c], residual.floats().row(row)[c] + add.floats().row(row)[c]);
          const auto at = static_cast<size_t>(row * size) + c;
          ASSERT_NEAR(ElementOf(first.out, at, dtype), expected[c],
                      Tolerance(dtype, expected[c], size + 6) + 1e-7)
              << dtype << " size " << size << " seed " << kSeed;
          if (dtype != DType::kF32) continue;
          ASSERT_EQ(ElementOf(first.out, at, dtype), sum[c] * scale * weight.floats().data[c])
              << "another order: size " << size << " seed " << kSeed;
        }
      }
    }
  }
}

TEST_P(CudaElementwise, NormsWhatItAddsWhereAModelDoes) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kRows = 3;
  for (const DType dtype : kOutputs) {
    for (const int32_t size : kNormSizes) {
      const TestMatrix residual(DType::kF32, kRows, size, 2.0, random),
          add(DType::kF32, kRows, size, 30.0, random), weights(DType::kF32, 2, size, 1.0, random);
      Normed first;
      for (const auto& device : devices()) {
        const Normed normed = RunNorm(*device, dtype, residual, add, weights, /*norms_add=*/true);
        if (first.out.empty()) first = normed;
        ASSERT_EQ(normed.out, first.out) << "two runs differ";
      }
      for (int32_t row = 0; row < kRows; ++row) {
        const float* sum = &first.sum[static_cast<size_t>(row * residual.view().stride)];
        const float* added = add.floats().row(row);
        const float mean = SquaresInOrder(added, size) / static_cast<float>(size);
        const float scale = 1.0f / std::sqrt(mean + 1e-5f);
        std::vector<double> of_added(static_cast<size_t>(size)), expected(of_added);
        RmsNormRef(added, weights.floats().row(1), 1e-5, size, of_added.data());
        RmsNormRef(sum, weights.floats().row(0), 1e-5, size, expected.data());
        for (size_t c = 0; c < expected.size(); ++c) {
          const float x = residual.floats().row(row)[c];
          ASSERT_EQ(sum[c], x + added[c] * scale * weights.floats().row(1)[c])
              << "another order: size " << size << " seed " << kSeed;
          ASSERT_NEAR(sum[c], x + of_added[c],
                      Tolerance(DType::kF32, of_added[c], size + 6) +
                          std::fabs(x + of_added[c]) * kFloatEps)
              << "size " << size << " seed " << kSeed;
          ASSERT_NEAR(ElementOf(first.out, static_cast<size_t>(row * size) + c, dtype), expected[c],
                      Tolerance(dtype, expected[c], size + 6) + 1e-7)
              << dtype << " size " << size << " seed " << kSeed;
        }
      }
    }
  }
}

TEST_P(CudaElementwise, GluMatchesTheReferenceFromDeepNegativeToLarge) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kRows = 2;
  for (const DType dtype : kOutputs) {
    for (const Activation f :
         {Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSwiglu}) {
      for (const int32_t size : {1, 173, 1030}) {
        const TestMatrix in(DType::kF32, kRows, 2 * size, 20.0, random);
        for (const auto& device : devices()) {
          const DeviceBuffer gate_up = Upload(*device, Floats(in));
          const DeviceBuffer out =
              Allocate(*device, static_cast<size_t>(kRows * size) * SizeOf(dtype));
          Require(device->Check(device->kernels().glu(device->context(), dtype,
                                                      {.f = f,
                                                       .gate_up = gate_up.as<float>(),
                                                       .gate_up_stride = in.view().stride,
                                                       .rows = kRows,
                                                       .size = size,
                                                       .out = out.data(),
                                                       .out_stride = size}),
                                "glu"));
          const std::vector<std::byte> bytes = Download<std::byte>(*device, out);
          for (int32_t i = 0; i < kRows * size; ++i) {
            const float* row = in.floats().row(i / size);
            const double e = GluRef(f, row[i % size], row[size + i % size]);
            // The exponent of e^x, but SiLU's, errs by up to 4 roundings of its own size. e^x
            // underflows below -87.3; F16 has steps of 2^-24 near zero.
            const double exponent = RoundedExponent(f, row[i % size]);
            ASSERT_NEAR(
                ElementOf(bytes, static_cast<size_t>(i), dtype), e,
                Tolerance(dtype, e, 8 + 4 * exponent) + (dtype == DType::kF16 ? 0x1p-24 : 1e-34))
                << dtype << " gate " << row[i % size] << " seed " << kSeed;
          }
        }
      }
    }
  }
}

TEST_P(CudaElementwise, SoftcapMatchesTheReferenceFromSmallToFarBeyondTheCap) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kRows = 2;
  for (const double spread : {1e-3, 1.0, 30.0, 1e4}) {
    for (const int32_t size : {1, 173, 1030}) {
      const TestMatrix in(DType::kF32, kRows, size, spread, random);
      for (const auto& device : devices()) {
        const DeviceBuffer values = Upload(*device, Floats(in));
        Require(device->Check(
            device->kernels().softcap(device->context(), {.cap = 30,
                                                          .values = values.as<float>(),
                                                          .stride = in.view().stride,
                                                          .rows = kRows,
                                                          .size = size}),
            "softcap"));
        const std::vector<float> got = Download<float>(*device, values);
        for (int32_t i = 0; i < kRows * size; ++i) {
          const float x = in.floats().row(i / size)[i % size];
          const double e = SoftcapRef(30, x);
          const auto at = static_cast<size_t>(i / size * in.view().stride + i % size);
          ASSERT_NEAR(got[at], e, Tolerance(DType::kF32, e, 8)) << "of " << x << " seed " << kSeed;
        }
      }
    }
  }
}

TEST_P(CudaElementwise, GateHeadsMatchesTheReferenceAndLeavesQueriesAlone) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kRows = 3, kHeads = 3;
  for (const auto& [host, dtype] : kDTypes) {
    for (const int32_t head_dim : {1, 8, 30, 256}) {
      const TestMatrix gated(DType::kF32, kRows, 2 * kHeads * head_dim + 5, 20.0, random),
          values(host, kRows, kHeads * head_dim, 1.0, random, 0);
      RoundTo(dtype, values);
      std::vector<std::byte> before;
      for (const auto& device : devices()) {
        const DeviceBuffer gates = Upload(*device, Floats(gated));
        before = ToDeviceDType(values.view().data,
                               static_cast<size_t>(kRows * kHeads * head_dim) * SizeOf(host),
                               {host, dtype});
        const DeviceBuffer on_device = Upload(*device, before);
        Require(device->Check(device->kernels().gate_heads(device->context(), dtype,
                                                           {.gated = gates.as<float>(),
                                                            .gated_stride = gated.view().stride,
                                                            .rows = kRows,
                                                            .num_heads = kHeads,
                                                            .head_dim = head_dim,
                                                            .values = on_device.data(),
                                                            .values_stride = kHeads * head_dim}),
                              "gates"));
        const std::vector<std::byte> got = Download<std::byte>(*device, on_device);
        for (int32_t i = 0; i < kRows * kHeads * head_dim; ++i) {
          const int32_t row = i / (kHeads * head_dim), col = i % (kHeads * head_dim);
          const float gate =
              gated.floats().row(row)[(2 * (col / head_dim) + 1) * head_dim + col % head_dim];
          const auto at = static_cast<size_t>(i);
          const double e = GateRef(gate, ElementOf(before, at, dtype));
          ASSERT_NEAR(ElementOf(got, at, dtype), e, Tolerance(dtype, e, 6) + 0x1p-24)
              << dtype << " gate " << gate << " seed " << kSeed;
        }
      }
    }
  }
}

// One sequence whose pages lie in reverse order, and a row of none.
class CudaRope : public CudaTest {
 protected:
  static constexpr int32_t kHeads = 3, kKvHeads = 2, kRows = 6, kStart = 5, kPages = 4;

  static constexpr double kFactor = 1.19;

  void Check(DType dtype, int64_t head_dim, int64_t num_pairs, bool norms, bool gated,
             std::mt19937_64& random) {
    const std::vector<double> frequencies = RopeTestFrequencies(num_pairs);
    const RopeTable table(frequencies, kStart + kRows, kFactor);
    const KvLayout layout{2, kKvHeads, 4, head_dim, dtype};
    const int32_t num_gates = gated ? kHeads : 0;
    const TestMatrix qkv(DType::kF32, kRows + 1, (kHeads + num_gates + 2 * kKvHeads) * head_dim,
                         1.0, random),
        weight(DType::kF32, 2, head_dim, 1.0, random, 0);
    for (const auto& device : devices()) {
      const auto page_bytes = static_cast<size_t>(layout.page_bytes());
      const DeviceBuffer pool = Allocate(*device, kPages * page_bytes);
      std::vector<std::byte*> pages;
      for (size_t i = 0; i < kPages; ++i) {
        pages.push_back(pool.data() + (kPages - 1 - i) * page_bytes);
      }
      const DeviceBuffer device_pages = Upload(*device, pages);
      std::vector<KvRow> rows(kRows + 1);
      for (int32_t r = 0; r < kRows; ++r) {
        rows[static_cast<size_t>(r)] = {device_pages.as<std::byte*>(), kStart + r};
      }
      const DeviceBuffer device_rows = Upload(*device, rows), in = Upload(*device, Floats(qkv)),
                         norm = Upload(*device, Floats(weight));
      const DeviceBuffer cos = Upload(*device, table.cos()), sin = Upload(*device, table.sin());
      const DeviceBuffer q =
          Allocate(*device, static_cast<size_t>((kRows + 1) * kHeads * head_dim) * SizeOf(dtype));
      Require(device->Check(
          device->kernels().rope_append(device->context(), dtype,
                                        {.qkv = in.as<float>(),
                                         .qkv_stride = qkv.view().stride,
                                         .sequence_rows = device_rows.as<KvRow>(),
                                         .cos = cos.as<float>(),
                                         .sin = sin.as<float>(),
                                         .q_norm = norms ? norm.as<float>() : nullptr,
                                         .k_norm = norms ? norm.as<float>() + head_dim : nullptr,
                                         .norm_eps = 1e-6f,
                                         .rows = kRows + 1,
                                         .num_heads = kHeads,
                                         .gated_queries = gated,
                                         .num_pairs = static_cast<int32_t>(num_pairs),
                                         .layer = LayerOf(layout, 1),
                                         .q = q.data(),
                                         .q_stride = kHeads * head_dim}),
          "rope"));
      const std::vector<std::byte> q_bytes = Download<std::byte>(*device, q);
      const std::vector<std::byte> pool_bytes = Download<std::byte>(*device, pool);
      for (int32_t r = 0; r < kRows; ++r) {
        for (int32_t head = 0; head < kHeads + 2 * kKvHeads; ++head) {
          const bool is_query = head < kHeads, is_value = head >= kHeads + kKvHeads;
          const int32_t place = head + (is_query && gated ? head : num_gates);
          const float* x = qkv.floats().row(r) + place * head_dim;
          std::vector<double> expected(x, x + head_dim);
          if (norms && !is_value) {
            RmsNormRef(x, weight.floats().row(is_query ? 0 : 1), 1e-6, head_dim, expected.data());
          }
          std::vector<double> rotated = expected;
          if (!is_value) {
            RopeRef(expected.data(), frequencies, kStart + r, kFactor, rotated.data());
          }
          const int64_t kv_head = (head - kHeads) % kKvHeads, position = kStart + r;
          const int64_t in_page =
              (is_value ? layout.ValueOffset(1, kv_head) : layout.KeyOffset(1, kv_head)) +
              position % 4 * layout.row_bytes();
          const size_t stored = (kPages - 1 - static_cast<size_t>(position / 4)) * page_bytes +
                                static_cast<size_t>(in_page);
          for (int64_t d = 0; d < head_dim; ++d) {
            const auto i = static_cast<size_t>(d);
            const float got =
                is_query ? ElementOf(q_bytes,
                                     static_cast<size_t>((r * kHeads + head) * head_dim + d), dtype)
                         : ElementOf(pool_bytes, stored / SizeOf(dtype) + i, dtype);
            const double size = RopeTestSize(expected, num_pairs, d) * kFactor;
            ASSERT_NEAR(
                got, rotated[i],
                Tolerance(dtype, size, 5 + (norms ? static_cast<double>(head_dim) : 0)) + 0x1p-24)
                << dtype << " head_dim " << head_dim << " pairs " << num_pairs << " head " << head
                << " row " << r;
          }
        }
      }
    }
  }
};

TEST_P(CudaRope, RotatesNormalizesAndAppends) {
  std::mt19937_64 random(kSeed);
  for (const DType dtype : kOutputs) {
    // The last ones rotate a part of the head.
    for (const auto& [head_dim, num_pairs] :
         {std::pair(8, 4), {64, 32}, {80, 40}, {256, 128}, {80, 30}, {256, 96}, {16, 1}}) {
      for (const bool norms : {false, true}) {
        for (const bool gated : {false, true}) {
          ASSERT_NO_FATAL_FAILURE(Check(dtype, head_dim, num_pairs, norms, gated, random));
        }
      }
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaElementwise);
ARIL_INSTANTIATE_CUDA_TEST(CudaRope);

}  // namespace
}  // namespace aril::kernels
