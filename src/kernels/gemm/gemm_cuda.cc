// cuBLASLt's matrices are in columns: what is [rows, cols] to us is its [cols, rows]. So yᵀ [n,
// rows] = W [n, k] · xᵀ [k, rows], with W's memory read as [k, n] and transposed.

#include "kernels/gemm/gemm_cuda.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/gemm/cublas_lt.h"

namespace aril::kernels {
namespace {

// As NVIDIA advises for Hopper.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr uint32_t kAlignment = 16;
// What the reference is the library's advice for. For fewer rows, if it may not split k, it advises
// algorithms of older devices, where n is small.
constexpr int64_t kReferenceRows = 64;
// What the reference is tried for, because the library advises it for the rows that were asked for
// only: below, at and above the tiles that algorithms have, as far as the product has such rows,
// and the most that it has. Beyond that an output might be more than any algorithm can address.
constexpr int64_t kCheckedRows[] = {1, 8, 24, 32, 64, 512, 8192};
constexpr int kMaxCandidates = 8;
// Up to so many rows one algorithm is chosen.
constexpr int64_t kFewestRows = 8;
// For fewer rows than kReferenceRows, what is advised for up to so many is worth a try.
constexpr int64_t kTriedRows = 256;
// For larger k, what is advised for so much of it is worth a try: where the library would split k,
// and may not, it advises little of use.
constexpr int64_t kTriedDepth = 4096;
// Calls of which an algorithm's time is the mean, and such means of which the least counts: calls
// of few rows take about as long as it takes to launch them.
constexpr int kTimings = 2, kCallsOfFewRows = 8, kCallsOfManyRows = 2;

cudaDataType_t TypeOf(DType dtype) {
  if (dtype == DType::kF32) return CUDA_R_32F;
  if (dtype == DType::kF16) return CUDA_R_16F;
  CHECK(dtype == DType::kBF16);
  return CUDA_R_16BF;
}

// The next one, or itself.
int64_t ToPowerOfTwo(int64_t rows) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
}

bool IsAligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }

class LtGemm final : public CudaGemm {
 public:
  LtGemm(CudaDevice& device, GemmChoice choice, CublasLt lt, cublasLtHandle_t handle,
         DeviceBuffer workspace)
      : device_(device),
        choice_(choice),
        lt_(std::move(lt)),
        handle_(handle),
        workspace_(std::move(workspace)) {}
  ~LtGemm() override { (void)lt_.destroy(handle_); }
  LtGemm(const LtGemm&) = delete;
  LtGemm& operator=(const LtGemm&) = delete;

  Status Run(const CudaGemmArgs& args) override {
    if (args.rows == 0) return OkStatus();
    ASSIGN_OR_RETURN(const Algorithm algorithm, Choose(args));
    return RunBy(algorithm, args);
  }

  Status Prepare(std::span<const CudaGemmArgs> calls) override {
    if (choice_ != GemmChoice::kInvariant) return OkStatus();
    const int64_t max_rows = calls.front().rows;
    if (max_rows == 0) return OkStatus();
    ASSIGN_OR_RETURN(const Algorithm reference, Reference(calls.front()));
    for (int64_t rows = kFewestRows;; rows *= 2) {
      std::vector<CudaGemmArgs> tried(calls.begin(), calls.end());
      for (CudaGemmArgs& call : tried) call.rows = std::min(rows, max_rows);
      ASSIGN_OR_RETURN(const Algorithm fastest, FindFastest(reference, tried));
      chosen_.insert_or_assign(ChoiceKey(tried.front()), Choice{fastest, tried.front().rows});
      if (rows >= max_rows) return OkStatus();
    }
  }

 private:
  using Algorithm = cublasLtMatmulAlgo_t;

  // Of a key, for no more rows than it was made for.
  struct Choice {
    Algorithm algorithm;
    int64_t most_rows;
  };

  // The library's descriptions of one product.
  struct Problem {
    explicit Problem(const CublasLt& functions) : lt(functions) {}
    Problem(const Problem&) = delete;
    Problem& operator=(const Problem&) = delete;
    ~Problem() {
      if (desc != nullptr) (void)lt.desc_destroy(desc);
      for (const cublasLtMatrixLayout_t layout : {w, x, y}) {
        if (layout != nullptr) (void)lt.layout_destroy(layout);
      }
    }
    const CublasLt& lt;
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  };
  // rows, max_rows, n, k, dtype, with bias
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, DType, bool>;

  static Key KeyOf(const CudaGemmArgs& args, int64_t rows) {
    return {rows, args.max_rows, args.n, args.k, args.dtype, args.bias != nullptr};
  }
  // Of all calls for which the same is chosen.
  Key ChoiceKey(const CudaGemmArgs& args) const {
    const int64_t fewest = choice_ == GemmChoice::kInvariant ? kFewestRows : 1;
    return KeyOf(args, ToPowerOfTwo(std::max(args.rows, fewest)));
  }

  Status Check(cublasStatus_t status, const char* what, const CudaGemmArgs& args) const {
    if (status == CUBLAS_STATUS_SUCCESS) return OkStatus();
    return Internal(std::string(what) + " (" + std::to_string(args.rows) + " rows, " +
                    std::to_string(args.k) + " → " + std::to_string(args.n) + ", " +
                    std::string(Name(args.dtype)) + "): " + lt_.status_string(status));
  }

  Status Describe(const CudaGemmArgs& args, int64_t rows, Problem& problem) const {
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      return Check(lt_.desc_set(problem.desc, attribute, &value, sizeof(value)),
                   "cublasLtMatmulDescSetAttribute", args);
    };
    const auto layout = [&](cublasLtMatrixLayout_t& to, cudaDataType_t type, int64_t in_rows,
                            int64_t cols, int64_t stride) {
      return Check(lt_.layout_create(&to, type, static_cast<uint64_t>(in_rows),
                                     static_cast<uint64_t>(cols), stride),
                   "cublasLtMatrixLayoutCreate", args);
    };
    RETURN_IF_ERROR(Check(lt_.desc_create(&problem.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                          "cublasLtMatmulDescCreate", args));
    RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T));
    RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N));
    if (args.bias != nullptr) {
      RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
      RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias));
    }
    const cudaDataType_t type = TypeOf(args.dtype);
    RETURN_IF_ERROR(layout(problem.w, type, args.k, args.n, args.k));
    RETURN_IF_ERROR(layout(problem.x, type, args.k, rows, args.x_stride));
    return layout(problem.y, CUDA_R_32F, args.n, rows, args.y_stride);
  }

  Status RunBy(const Algorithm& algorithm, const CudaGemmArgs& args) {
    CHECK(IsAligned(args.x) && IsAligned(args.w) && IsAligned(args.y));
    CHECK_LE(args.rows, args.max_rows);
    Problem problem(lt_);
    RETURN_IF_ERROR(Describe(args, args.rows, problem));
    const float one = 1, zero = 0;
    return Check(
        lt_.matmul(handle_, problem.desc, &one, args.w, problem.w, args.x, problem.x, &zero, args.y,
                   problem.y, args.y, problem.y, &algorithm, workspace_.data(), kWorkspaceBytes,
                   static_cast<cudaStream_t>(device_.context().stream)),
        "cublasLtMatmul", args);
  }

  StatusOr<Algorithm> Choose(const CudaGemmArgs& args) {
    const Key key = ChoiceKey(args);
    const auto found = chosen_.find(key);
    if (found != chosen_.end() && args.rows <= found->second.most_rows) {
      return found->second.algorithm;
    }
    if (choice_ == GemmChoice::kInvariant) return Reference(args);
    const int64_t most_rows = std::get<0>(key);
    ASSIGN_OR_RETURN(const std::vector<Algorithm> advised, Advised(args, most_rows));
    if (advised.empty()) return Check(CUBLAS_STATUS_NOT_SUPPORTED, "no algorithm", args);
    chosen_.emplace(key, Choice{advised.front(), most_rows});
    return advised.front();
  }

  // The first of those advised that can compute any number of rows.
  StatusOr<Algorithm> Reference(const CudaGemmArgs& args) {
    const Key key = KeyOf(args, 0);
    if (const auto found = references_.find(key); found != references_.end()) return found->second;
    ASSIGN_OR_RETURN(const std::vector<Algorithm> advised, Advised(args, kReferenceRows));
    for (const Algorithm& algorithm : advised) {
      bool can = true;
      for (const int64_t rows : kCheckedRows) {
        if (rows >= args.max_rows || !can) break;
        ASSIGN_OR_RETURN(can, CanCompute(args, rows, algorithm));
      }
      if (can) {
        ASSIGN_OR_RETURN(can, CanCompute(args, args.max_rows, algorithm));
      }
      if (can) return references_.emplace(key, algorithm).first->second;
    }
    return Check(CUBLAS_STATUS_NOT_SUPPORTED, "no algorithm", args);
  }

  // Of those that give the reference's bits for the calls' rows, and for as few as the same is
  // chosen for.
  StatusOr<Algorithm> FindFastest(const Algorithm& reference, std::span<const CudaGemmArgs> calls) {
    const std::vector<CudaGemmArgs> compared = Compared(calls);
    std::vector<std::vector<float>> expected;
    for (const CudaGemmArgs& call : compared) {
      ASSIGN_OR_RETURN(expected.emplace_back(), EndsByReference(reference, call));
      // Of zeros, or what is no number, all agree.
      if (!HasBitsToCompare(expected.back())) return reference;
    }
    ASSIGN_OR_RETURN(const std::vector<Algorithm> candidates, Candidates(reference, calls.front()));
    std::optional<Algorithm> fastest;
    double least_us = std::numeric_limits<double>::infinity();
    for (const Algorithm& candidate : candidates) {
      ASSIGN_OR_RETURN(const bool agrees, Agrees(candidate, compared, expected));
      if (!agrees) continue;
      ASSIGN_OR_RETURN(const double us, TimeUs(candidate, calls));
      if (us >= least_us) continue;
      least_us = us;
      fastest = candidate;
    }
    if (fastest) return *fastest;
    return Check(CUBLAS_STATUS_NOT_SUPPORTED,
                 "no algorithm gives a row the same bits among any number of rows (use --device "
                 "cpu): cublasLtMatmul",
                 calls.front());
  }

  // By the first and the last layer's W: the most rows of a choice, the fewest, and one between.
  static std::vector<CudaGemmArgs> Compared(std::span<const CudaGemmArgs> calls) {
    const int64_t most = calls.front().rows;
    const int64_t fewest = most <= kFewestRows ? 1 : ToPowerOfTwo(most) / 2 + 1;
    std::vector<CudaGemmArgs> compared;
    for (const CudaGemmArgs& call : {calls.front(), calls.back()}) {
      for (const int64_t rows : {fewest, (fewest + most) / 2, most}) {
        compared.push_back(call);
        compared.back().rows = rows;
      }
    }
    return compared;
  }

  static bool HasBitsToCompare(const std::vector<float>& values) {
    const auto telling = std::ranges::count_if(
        values, [](float value) { return std::isfinite(value) && value != 0; });
    return telling > std::ssize(values) / 2;
  }

  // Whether it can compute all of the calls, with the same bits.
  StatusOr<bool> Agrees(const Algorithm& candidate, const std::vector<CudaGemmArgs>& compared,
                        const std::vector<std::vector<float>>& expected) {
    for (size_t i = 0; i < compared.size(); ++i) {
      ASSIGN_OR_RETURN(const bool can, CanCompute(compared[i], compared[i].rows, candidate));
      if (!can) return false;
      RETURN_IF_ERROR(Poison(compared[i]));
      // What the library checks may still be refused.
      if (!RunBy(candidate, compared[i]).ok()) return false;
      ASSIGN_OR_RETURN(const std::vector<float> got, ReadEnds(compared[i]));
      if (std::memcmp(got.data(), expected[i].data(), got.size() * sizeof(float)) != 0) {
        return false;
      }
    }
    return true;
  }

  // What is worth a try: the reference, and what is advised for about as many rows.
  StatusOr<std::vector<Algorithm>> Candidates(const Algorithm& reference,
                                              const CudaGemmArgs& call) const {
    std::vector<Algorithm> candidates = {reference};
    std::vector<CudaGemmArgs> asked = {call};
    if (call.k > kTriedDepth) {
      asked.push_back(call);
      asked.back().k = kTriedDepth;
    }
    const int64_t last = std::min(call.max_rows, std::max(2 * call.rows, kTriedRows));
    for (int64_t rows = std::max(call.rows / 2, kFewestRows); rows <= last; rows *= 2) {
      for (const CudaGemmArgs& like : asked) {
        ASSIGN_OR_RETURN(const std::vector<Algorithm> advised, Advised(like, rows));
        for (const Algorithm& algorithm : advised) {
          const bool known = std::ranges::any_of(candidates, [&](const Algorithm& other) {
            return std::memcmp(&other, &algorithm, sizeof(Algorithm)) == 0;
          });
          if (!known) candidates.push_back(algorithm);
        }
      }
    }
    return candidates;
  }

  // What is not computed must not look as if it was.
  Status Poison(const CudaGemmArgs& call) {
    return device_.Set(call.y, 0xFF, static_cast<size_t>(call.rows * call.n) * sizeof(float));
  }

  // The calls of few rows that make both ends of a call: each begins at a multiple of eight rows,
  // and so at one of 16 bytes, whatever n and k are.
  static std::vector<CudaGemmArgs> EndsOf(const CudaGemmArgs& call) {
    std::vector<CudaGemmArgs> ends;
    for (const int64_t first : {int64_t{0}, (call.rows - 1) / kFewestRows * kFewestRows}) {
      CudaGemmArgs& end = ends.emplace_back(call);
      end.rows = std::min(kFewestRows, call.rows - first);
      end.x += first * call.x_stride * static_cast<int64_t>(SizeOf(call.dtype));
      end.y += first * call.y_stride;
    }
    return ends;
  }

  // Of y, as it is there.
  StatusOr<std::vector<float>> ReadEnds(const CudaGemmArgs& call) {
    CHECK_EQ(call.y_stride, call.n);
    std::vector<float> values;
    for (const CudaGemmArgs& end : EndsOf(call)) {
      std::vector<float> of_end(static_cast<size_t>(end.rows * end.n));
      RETURN_IF_ERROR(device_.CopyToHost(of_end.data(), end.y, of_end.size() * sizeof(float)));
      RETURN_IF_ERROR(device_.Synchronize());
      values.insert(values.end(), of_end.begin(), of_end.end());
    }
    return values;
  }

  StatusOr<std::vector<float>> EndsByReference(const Algorithm& reference,
                                               const CudaGemmArgs& call) {
    RETURN_IF_ERROR(Poison(call));
    for (const CudaGemmArgs& end : EndsOf(call)) RETURN_IF_ERROR(RunBy(reference, end));
    return ReadEnds(call);
  }

  // Of a call.
  StatusOr<double> TimeUs(const Algorithm& algorithm, std::span<const CudaGemmArgs> calls) {
    const int count = calls.front().rows <= kTriedRows ? kCallsOfFewRows : kCallsOfManyRows;
    double least = std::numeric_limits<double>::infinity();
    size_t next = 0;
    for (int timing = 0; timing < kTimings; ++timing) {
      ASSIGN_OR_RETURN(const double us, device_.TimeUs([&] {
        for (int i = 0; i < count; ++i) {
          RETURN_IF_ERROR(RunBy(algorithm, calls[next++ % calls.size()]));
        }
        return OkStatus();
      }));
      least = std::min(least, us / count);
    }
    return least;
  }

  StatusOr<bool> CanCompute(const CudaGemmArgs& args, int64_t rows,
                            const Algorithm& algorithm) const {
    Problem problem(lt_);
    RETURN_IF_ERROR(Describe(args, rows, problem));
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t checked = lt_.algo_check(handle_, problem.desc, problem.w, problem.x,
                                                  problem.y, problem.y, &algorithm, &result);
    return checked == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kWorkspaceBytes;
  }

  // What the library advises for so many rows, best first; none if it has nothing.
  StatusOr<std::vector<Algorithm>> Advised(const CudaGemmArgs& args, int64_t rows) const {
    Problem problem(lt_);
    RETURN_IF_ERROR(Describe(args, rows, problem));
    cublasLtMatmulPreference_t preference = nullptr;
    RETURN_IF_ERROR(
        Check(lt_.preference_create(&preference), "cublasLtMatmulPreferenceCreate", args));
    std::vector<cublasLtMatmulHeuristicResult_t> results(kMaxCandidates);
    const Status status = Ask(args, problem, preference, results);
    (void)lt_.preference_destroy(preference);
    RETURN_IF_ERROR(status);
    std::vector<Algorithm> advised;
    for (const cublasLtMatmulHeuristicResult_t& result : results) {
      if (result.state == CUBLAS_STATUS_SUCCESS) advised.push_back(result.algo);
    }
    return advised;
  }

  Status Ask(const CudaGemmArgs& args, const Problem& problem,
             cublasLtMatmulPreference_t preference,
             std::vector<cublasLtMatmulHeuristicResult_t>& results) const {
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return Check(lt_.preference_set(preference, attribute, &value, sizeof(value)),
                   "cublasLtMatmulPreferenceSetAttribute", args);
    };
    RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      RETURN_IF_ERROR(prefer(attribute, kAlignment));
    }
    if (choice_ == GemmChoice::kInvariant) {
      constexpr uint32_t kNoSplits = CUBLASLT_REDUCTION_SCHEME_NONE;
      RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kNoSplits));
    }
    int count = 0;
    const cublasStatus_t asked =
        lt_.heuristic(handle_, problem.desc, problem.w, problem.x, problem.y, problem.y, preference,
                      kMaxCandidates, results.data(), &count);
    results.resize(static_cast<size_t>(count));
    if (asked == CUBLAS_STATUS_NOT_SUPPORTED) return OkStatus();
    return Check(asked, "cublasLtMatmulAlgoGetHeuristic", args);
  }

  CudaDevice& device_;
  GemmChoice choice_;
  CublasLt lt_;
  cublasLtHandle_t handle_;
  DeviceBuffer workspace_;
  std::map<Key, Algorithm> references_;  // of kInvariant
  std::map<Key, Choice> chosen_;         // by rows to the next power of two
};

}  // namespace

StatusOr<std::unique_ptr<CudaGemm>> OpenCudaGemm(CudaDevice& device, GemmChoice choice,
                                                 const std::string& library) {
  ASSIGN_OR_RETURN(CublasLt lt, LoadCublasLt(library));
  ASSIGN_OR_RETURN(DeviceBuffer workspace, DeviceBuffer::Allocate(device, kWorkspaceBytes));
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = lt.create(&handle); status != CUBLAS_STATUS_SUCCESS) {
    return Unavailable(std::string("cuBLASLt cannot be used: ") + lt.status_string(status));
  }
  return std::unique_ptr<CudaGemm>(
      std::make_unique<LtGemm>(device, choice, std::move(lt), handle, std::move(workspace)));
}

}  // namespace aril::kernels
