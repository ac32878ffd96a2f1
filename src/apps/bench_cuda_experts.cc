// A mixture's products: of the rows of each expert with its matrix.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "apps/bench_cuda_cases.h"
#include "apps/bench_cuda_operands.h"

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

constexpr uint64_t kSeed = 1;

// Which rows go to which expert, as kernels/experts has it.
struct Route {
  std::vector<int32_t> first_places;  // [experts + 1]
  std::vector<int32_t> place_rows;

  // Every row chooses evenly and by itself.
  Route(const ExpertsSpec& experts, int64_t rows, std::mt19937_64& random) {
    std::vector<std::vector<int32_t>> of_expert(static_cast<size_t>(experts.count));
    std::vector<size_t> all(of_expert.size());
    std::iota(all.begin(), all.end(), size_t{0});
    std::vector<size_t> chosen;
    for (int64_t row = 0; row < rows; ++row) {
      chosen.clear();
      std::ranges::sample(all, std::back_inserter(chosen), experts.per_token, random);
      for (const size_t expert : chosen) of_expert[expert].push_back(static_cast<int32_t>(row));
    }
    first_places.push_back(0);
    for (const std::vector<int32_t>& of_one : of_expert) {
      place_rows.insert(place_rows.end(), of_one.begin(), of_one.end());
      first_places.push_back(static_cast<int32_t>(place_rows.size()));
    }
  }

  int64_t RowsOf(size_t expert) const { return first_places[expert + 1] - first_places[expert]; }
  int NumUsed() const {
    int used = 0;
    for (size_t expert = 0; expert + 1 < first_places.size(); ++expert) {
      used += RowsOf(expert) > 0 ? 1 : 0;
    }
    return used;
  }
};

// Calls with the experts of one size; a batch has a route of its own in each of them.
class ExpertsCalls {
 public:
  static StatusOr<std::shared_ptr<ExpertsCalls>> Make(CudaDevice& device, kernels::CudaGemm& gemm,
                                                      const ExpertsSpec& experts,
                                                      const MatrixSize& size, int64_t max_rows,
                                                      size_t cold_bytes) {
    std::shared_ptr<ExpertsCalls> calls(new ExpertsCalls(device, gemm, experts, size));
    const int64_t places = max_rows * experts.per_token;
    calls->host_w_ = SmallValues(experts.count * size.out * size.in * kElement);
    calls->host_x_ = SmallValues(places * size.in * kElement);
    ASSIGN_OR_RETURN(calls->x_, Upload(device, calls->host_x_));
    ASSIGN_OR_RETURN(
        calls->y_,
        DeviceBuffer::Allocate(device, static_cast<size_t>(places * size.out) * sizeof(float)));
    for (size_t bytes = 0; bytes < cold_bytes; bytes += calls->host_w_.size_bytes()) {
      ASSIGN_OR_RETURN(calls->copies_.emplace_back(), Upload(device, calls->host_w_));
    }
    return calls;
  }

  struct Batch {
    std::vector<Route> routes;  // of each call
    std::vector<DeviceBuffer> first_places;
    double mean_used = 0;  // experts
  };
  StatusOr<std::shared_ptr<Batch>> MakeBatch(int64_t rows) {
    auto batch = std::make_shared<Batch>();
    std::mt19937_64 random(kSeed);
    for (int call = 0; call < kCudaCalls; ++call) {
      const Route& route = batch->routes.emplace_back(experts_, rows, random);
      ASSIGN_OR_RETURN(
          batch->first_places.emplace_back(),
          Upload(device_, route.first_places.data(), route.first_places.size() * sizeof(int32_t)));
      batch->mean_used += static_cast<double>(route.NumUsed()) / kCudaCalls;
    }
    return batch;
  }

  // x has a row for each place, in both.
  Status EnqueueTogether(const Batch& batch, int call) {
    return device_.Check(
        device_.kernels().grouped_gemm(
            device_.context(), DType::kBF16,
            {.first_rows = batch.first_places[static_cast<size_t>(call)].as<int32_t>(),
             .x = x_.data(),
             .x_stride = size_.in,
             .w = WeightsOf(call),
             .groups = static_cast<int32_t>(experts_.count),
             .n = static_cast<int32_t>(size_.out),
             .k = static_cast<int32_t>(size_.in),
             .y = y_.as<float>(),
             .y_stride = size_.out}),
        "the experts' products");
  }
  Status EnqueueOneByOne(const Batch& batch, int call) {
    const Route& route = batch.routes[static_cast<size_t>(call)];
    for (int64_t expert = 0; expert < experts_.count; ++expert) {
      const int64_t rows = route.RowsOf(static_cast<size_t>(expert));
      if (rows == 0) continue;
      const int64_t place = route.first_places[static_cast<size_t>(expert)];
      RETURN_IF_ERROR(gemm_.Run({.dtype = DType::kBF16,
                                 .rows = rows,
                                 .max_rows = std::max(rows, kernels::kUsualGemmRows),
                                 .n = size_.out,
                                 .k = size_.in,
                                 .x = x_.data() + place * size_.in * kElement,
                                 .x_stride = size_.in,
                                 .w = WeightsOf(call) + expert * size_.out * size_.in * kElement,
                                 .y = y_.as<float>() + place * size_.out,
                                 .y_stride = size_.out}));
    }
    return OkStatus();
  }

  template <typename Enqueue>
  Status Check(const Batch& batch, const Enqueue& enqueue) {
    // The library is asked for each number of rows here, not while it is captured.
    for (int call = 0; call < kCudaCalls; ++call) RETURN_IF_ERROR(enqueue(call));
    RETURN_IF_ERROR(device_.Set(y_.data(), 0xFF, y_.size_bytes()));
    RETURN_IF_ERROR(enqueue(kLastCall));
    ASSIGN_OR_RETURN(const Buffer y, Download(device_, y_));
    const Route& route = batch.routes[static_cast<size_t>(kLastCall)];
    return Compare(
        static_cast<int64_t>(route.place_rows.size()), size_.out,
        [&](int64_t place, int64_t col) { return y.as<float>()[place * size_.out + col]; },
        [&](int64_t place, int64_t col) {
          const auto behind = std::ranges::upper_bound(route.first_places, place);
          const int64_t expert = behind - route.first_places.begin() - 1;
          double sum = 0;
          for (int64_t k = 0; k < size_.in; ++k) {
            sum += ToDouble(host_x_, place * size_.in + k) *
                   ToDouble(host_w_, (expert * size_.out + col) * size_.in + k);
          }
          return sum;
        },
        kSumError);
  }

 private:
  ExpertsCalls(CudaDevice& device, kernels::CudaGemm& gemm, const ExpertsSpec& experts,
               MatrixSize size)
      : device_(device), gemm_(gemm), experts_(experts), size_(std::move(size)) {}

  const std::byte* WeightsOf(int call) const {
    return copies_[static_cast<size_t>(call) % copies_.size()].data();
  }

  CudaDevice& device_;
  kernels::CudaGemm& gemm_;
  const ExpertsSpec experts_;
  const MatrixSize size_;  // of one expert
  Buffer host_w_, host_x_;
  std::vector<DeviceBuffer> copies_;  // of all experts' W
  DeviceBuffer x_, y_;
};

}  // namespace

StatusOr<std::vector<CudaKernelCase>> CudaExpertsCases(CudaDevice& device, kernels::CudaGemm& gemm,
                                                       const ExpertsSpec& experts,
                                                       const MatrixSize& size,
                                                       const std::vector<int64_t>& rows,
                                                       size_t cold_bytes) {
  ASSIGN_OR_RETURN(
      const std::shared_ptr<ExpertsCalls> calls,
      ExpertsCalls::Make(device, gemm, experts, size, std::ranges::max(rows), cold_bytes));
  std::vector<CudaKernelCase> cases;
  for (const int64_t num_rows : rows) {
    ASSIGN_OR_RETURN(const std::shared_ptr<ExpertsCalls::Batch> batch, calls->MakeBatch(num_rows));
    const int64_t places = num_rows * experts.per_token;
    KernelWork work = GemmWork(size, kernels::WeightFormat::kBF16, places);
    work.kernel = "experts";
    work.rows = num_rows;
    work.bytes = work.bytes * batch->mean_used +
                 static_cast<double>(places * (size.in * kElement + size.out * 4));
    work.compared_to = cases.size();
    const auto together = [=](int call) { return calls->EnqueueTogether(*batch, call); };
    cases.push_back({.work = work, .num_kernels = 1, .enqueue = together, .check = [=] {
                       return calls->Check(*batch, together);
                     }});
    const auto one_by_one = [=](int call) { return calls->EnqueueOneByOne(*batch, call); };
    work.kernel = "experts, loop over them";
    cases.push_back({.work = work,
                     .num_kernels = batch->routes.back().NumUsed(),
                     .enqueue = one_by_one,
                     .check = [=] { return calls->Check(*batch, one_by_one); }});
  }
  return cases;
}

}  // namespace aril
