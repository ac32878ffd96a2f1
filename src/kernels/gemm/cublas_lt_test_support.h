// Products by the library that stands in for cuBLASLt: a device on which they take the time that
// the library says, and operands.

#ifndef ARIL_KERNELS_GEMM_CUBLAS_LT_TEST_SUPPORT_H_
#define ARIL_KERNELS_GEMM_CUBLAS_LT_TEST_SUPPORT_H_

#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/test_support.h"
#include "kernels/gemm/cublas_lt_stand_in.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_cuda.h"

namespace aril::kernels {

// The emulator, but that time is what the library's products take.
class TimedDevice final : public CudaDevice {
 public:
  explicit TimedDevice(const CublasLtStandIn& library)
      : device_(MakeEmulatedDevice(emulator::Order::kForward, 1)), library_(library) {
    context_ = device_->context();
  }

  StatusOr<double> TimeUs(const Work& enqueue) override {
    RETURN_IF_ERROR(Synchronize());
    const double before_us = library_.spent_us;
    RETURN_IF_ERROR(enqueue());
    RETURN_IF_ERROR(Synchronize());
    return library_.spent_us - before_us;
  }

  std::string name() const override { return device_->name(); }
  const CudaKernels& kernels() const override { return device_->kernels(); }
  StatusOr<void*> Allocate(size_t size_bytes) override { return device_->Allocate(size_bytes); }
  void Free(void* memory) override { device_->Free(memory); }
  StatusOr<int64_t> FreeBytes() override { return device_->FreeBytes(); }
  Status CopyToDevice(void* to, const void* from, size_t size_bytes) override {
    return device_->CopyToDevice(to, from, size_bytes);
  }
  Status CopyToHost(void* to, const void* from, size_t size_bytes) override {
    return device_->CopyToHost(to, from, size_bytes);
  }
  Status CopyWithin(void* to, const void* from, size_t size_bytes) override {
    return device_->CopyWithin(to, from, size_bytes);
  }
  Status Set(void* to, uint8_t byte, size_t size_bytes) override {
    return device_->Set(to, byte, size_bytes);
  }
  StatusOr<void*> AllocateHost(size_t size_bytes) override {
    return device_->AllocateHost(size_bytes);
  }
  void FreeHost(void* memory) override { device_->FreeHost(memory); }
  Status CopyAside(void* to, const void* from, size_t size_bytes) override {
    return device_->CopyAside(to, from, size_bytes);
  }
  Status Synchronize() override { return device_->Synchronize(); }
  StatusOr<std::unique_ptr<CudaEvent>> MakeEvent() override { return device_->MakeEvent(); }
  StatusOr<std::unique_ptr<CudaGraph>> Capture(const Work& enqueue) override {
    return device_->Capture(enqueue);
  }
  Status Check(int cuda_error, const std::string& what) const override {
    return device_->Check(cuda_error, what);
  }

 private:
  std::unique_ptr<CudaDevice> device_;
  const CublasLtStandIn& library_;
};

// Of a product in some layers, which differ in W.
struct ProductShape {
  TestDType dtype = {DType::kF32, DType::kF32};
  int64_t rows = 1;  // at most
  int64_t n = 16;
  int64_t k = 32;
  int64_t num_layers = 3;
  bool has_bias = false;
  int64_t max_rows = kUsualGemmRows;
};

class ProductOperands {
 public:
  // Unit normals; or whole numbers, whose sums are the same in any order.
  static ProductOperands Random(CudaDevice& device, const ProductShape& shape,
                                std::mt19937_64& random) {
    return ProductOperands(device, shape, random, /*whole=*/false);
  }
  static ProductOperands Whole(CudaDevice& device, const ProductShape& shape,
                               std::mt19937_64& random) {
    return ProductOperands(device, shape, random, /*whole=*/true);
  }

  // The first rows of x, and a layer's W.
  CudaGemmArgs Call(int64_t rows, size_t layer = 0) const {
    return {.dtype = shape_.dtype.device,
            .rows = rows,
            .max_rows = shape_.max_rows,
            .n = shape_.n,
            .k = shape_.k,
            .x = device_x_.data(),
            .x_stride = x_.view().stride,
            .w = device_w_[layer].data(),
            .bias = shape_.has_bias ? device_bias_.as<float>() : nullptr,
            .y = device_y_.as<float>(),
            .y_stride = shape_.n};
  }
  // All rows, in each layer.
  std::vector<CudaGemmArgs> Calls() const {
    std::vector<CudaGemmArgs> calls;
    for (size_t i = 0; i < device_w_.size(); ++i) calls.push_back(Call(shape_.rows, i));
    return calls;
  }
  const DeviceBuffer& y() const { return device_y_; }

  // What Call computes of all rows, by the oracle.
  std::vector<double> Expected() const {
    std::vector<double> y(static_cast<size_t>(shape_.rows * shape_.n));
    const Matrix& w = w_.front().view();
    GemmRef(x_.view(), {w.data, w.dtype, {shape_.n, shape_.k}},
            shape_.has_bias ? bias_.floats().data : nullptr,
            {y.data(), shape_.rows, shape_.n, shape_.n});
    return y;
  }

 private:
  // Rows of x begin at multiples of 16 bytes, and are not one behind the other.
  static constexpr int64_t kPadding = 8;

  ProductOperands(CudaDevice& device, const ProductShape& shape, std::mt19937_64& random,
                  bool whole)
      : shape_(shape),
        x_(shape.dtype.host, shape.rows, shape.k, 1.0, random, kPadding),
        bias_(DType::kF32, 1, shape.n, 1.0, random, 0) {
    for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
      w_.emplace_back(shape.dtype.host, shape.n, shape.k, 1.0, random, 0);
    }
    if (whole) MakeWhole(x_, random);
    device_x_ = Place(device, x_);
    for (const TestMatrix& w : w_) {
      if (whole) MakeWhole(w, random);
      device_w_.push_back(Place(device, w));
    }
    const MatrixView<float> bias = bias_.floats();
    device_bias_ = Upload(device, std::vector<float>(bias.data, bias.data + shape.n));
    device_y_ = Allocate(device, static_cast<size_t>(shape.rows * shape.n) * sizeof(float));
  }
  DeviceBuffer Place(CudaDevice& device, const TestMatrix& matrix) const {
    RoundTo(shape_.dtype.device, matrix);
    const Matrix& view = matrix.view();
    const auto num_bytes = static_cast<size_t>(view.rows * view.stride) * SizeOf(view.dtype);
    return Upload(device, ToDeviceDType(view.data, num_bytes, shape_.dtype));
  }
  static void MakeWhole(const TestMatrix& matrix, std::mt19937_64& random) {
    const MatrixView<float> view = matrix.floats();
    for (int64_t r = 0; r < view.rows; ++r) {
      for (int64_t c = 0; c < view.cols; ++c) view.row(r)[c] = static_cast<float>(random() % 7) - 3;
    }
  }

  ProductShape shape_;
  TestMatrix x_, bias_;
  std::vector<TestMatrix> w_;
  DeviceBuffer device_x_, device_bias_, device_y_;
  std::vector<DeviceBuffer> device_w_;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_CUBLAS_LT_TEST_SUPPORT_H_
