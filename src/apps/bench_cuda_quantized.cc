// Products with a matrix of four bits, of bytes, of FP8 or of codes.

#include <algorithm>
#include <memory>
#include <utility>

#include "apps/bench_cuda_cases.h"
#include "apps/bench_cuda_operands.h"
#include "kernels/gemm/weight_rows.h"

namespace aril {
namespace {

using bench_cuda::Compare;
using bench_cuda::Download;
using bench_cuda::kElement;
using bench_cuda::kLastCall;
using bench_cuda::kSumError;
using bench_cuda::ToDouble;
using bench_cuda::Upload;
using kernels::CudaDevice;
using kernels::DeviceBuffer;
using kernels::kQuantizedCols;
using kernels::QuantizedLayout;
using kernels::WeightFormat;

// A matrix of which every tile is the same one: rounding all of a large one takes a minute.
class QuantizedCalls {
 public:
  static StatusOr<std::shared_ptr<QuantizedCalls>> Make(CudaDevice& device, const MatrixSize& size,
                                                        WeightFormat format, int64_t max_rows,
                                                        size_t cold_bytes) {
    std::shared_ptr<QuantizedCalls> calls(new QuantizedCalls(device, size, format));
    calls->MakeTile();
    const auto tile_bytes = static_cast<size_t>(calls->layout_.tile_bytes);
    Buffer w(static_cast<size_t>(calls->layout_.size_bytes()));
    for (size_t at = 0; at < w.size_bytes(); at += tile_bytes) {
      std::copy_n(calls->tile_.data(), tile_bytes, w.data() + at);
    }
    calls->host_x_ = SmallValues(max_rows * size.in * kElement);
    ASSIGN_OR_RETURN(calls->x_, Upload(device, calls->host_x_));
    ASSIGN_OR_RETURN(
        calls->y_,
        DeviceBuffer::Allocate(device, static_cast<size_t>(max_rows * size.out) * sizeof(float)));
    for (size_t bytes = 0; bytes < cold_bytes; bytes += w.size_bytes()) {
      ASSIGN_OR_RETURN(calls->copies_.emplace_back(), Upload(device, w));
    }
    return calls;
  }

  Status Enqueue(int64_t rows, int call) {
    const DeviceBuffer& w = copies_[static_cast<size_t>(call) % copies_.size()];
    return device_.Check(device_.kernels().quantized_gemm(device_.context(), DType::kBF16,
                                                          {.rows = static_cast<int32_t>(rows),
                                                           .x = x_.data(),
                                                           .x_stride = layout_.k,
                                                           .w = w.data(),
                                                           .layout = layout_,
                                                           .y = y_.as<float>(),
                                                           .y_stride = layout_.n}),
                         "a product with quantized weights");
  }

  Status Check(int64_t rows) {
    RETURN_IF_ERROR(device_.Set(y_.data(), 0xFF, y_.size_bytes()));
    RETURN_IF_ERROR(Enqueue(rows, kLastCall));
    ASSIGN_OR_RETURN(const Buffer y, Download(device_, y_));
    return Compare(
        rows, layout_.n,
        [&](int64_t row, int64_t col) { return y.as<float>()[row * layout_.n + col]; },
        [&](int64_t row, int64_t col) {
          const std::vector<double>& values = values_[static_cast<size_t>(col % kQuantizedCols)];
          double sum = 0;
          for (int64_t k = 0; k < layout_.k; ++k) {
            sum += ToDouble(host_x_, row * layout_.k + k) * values[static_cast<size_t>(k)];
          }
          return sum;
        },
        kSumError);
  }

 private:
  QuantizedCalls(CudaDevice& device, const MatrixSize& size, WeightFormat format)
      : device_(device),
        values_of_tile_(kQuantizedCols, size.in, format),
        layout_(kernels::MakeQuantizedLayout(format, size.out, size.in, GroupSizeOf(format),
                                             CodebookOf(values_of_tile_.view()))) {}

  static int64_t GroupSizeOf(WeightFormat format) {
    switch (format) {
      case WeightFormat::kFloat8:
        return kernels::kFloat8GroupSize;
      case WeightFormat::kCodebook4:
        return kernels::kCodebook4GroupSize;
      default:
        return kernels::kInt4GroupSize;
    }
  }
  static Codebook4 CodebookOf(const WeightView& view) {
    const auto* const codes = std::get_if<Codebook4View>(&view);
    return codes != nullptr ? codes->codebook : Codebook4();
  }

  void MakeTile() {
    const std::vector<WeightView> parts = {values_of_tile_.view()};
    const std::vector<kernels::WeightRow> rows = kernels::RowsOf(parts);
    tile_ = Buffer(static_cast<size_t>(layout_.tile_bytes));
    kernels::WriteQuantizedTile(layout_, rows, {}, tile_.data());
    for (const kernels::WeightRow& row : rows) {
      values_.push_back(kernels::ValuesIn(layout_.format, row, {}));
    }
  }

  CudaDevice& device_;
  const SmallWeights values_of_tile_;
  const QuantizedLayout layout_;
  Buffer tile_, host_x_;
  std::vector<std::vector<double>> values_;  // [kQuantizedCols][k], of a tile
  std::vector<DeviceBuffer> copies_;         // of W
  DeviceBuffer x_, y_;
};

}  // namespace

StatusOr<std::vector<CudaKernelCase>> CudaQuantizedCases(CudaDevice& device, const MatrixSize& size,
                                                         const std::vector<int64_t>& rows,
                                                         size_t cold_bytes) {
  std::vector<CudaKernelCase> cases;
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kFloat8,
                                    WeightFormat::kCodebook4}) {
    ASSIGN_OR_RETURN(
        const std::shared_ptr<QuantizedCalls> calls,
        QuantizedCalls::Make(device, size, format, std::ranges::max(rows), cold_bytes));
    for (const int64_t num_rows : rows) {
      KernelWork work = GemmWork(size, format, num_rows);
      work.format = WeightFormat::kBF16;  // of what is multiplied
      cases.push_back({.work = std::move(work),
                       .num_kernels = 1,
                       .enqueue = [=](int call) { return calls->Enqueue(num_rows, call); },
                       .check = [=] { return calls->Check(num_rows); }});
    }
  }
  return cases;
}

}  // namespace aril
