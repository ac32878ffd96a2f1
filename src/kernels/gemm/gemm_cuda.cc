// cuBLASLt's matrices are in columns: what is [rows, cols] to us is its [cols, rows]. So yᵀ [n,
// rows] = W [n, k] · xᵀ [k, rows], with W's memory read as [k, n] and transposed.

#include "kernels/gemm/gemm_cuda.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <bit>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"

namespace aril::kernels {
namespace {

// As NVIDIA advises for Hopper.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr uint32_t kAlignment = 16;
// What kFixed asks the heuristics for: a decode of middling size, which is where the time goes.
constexpr int64_t kReferenceRows = 32;
// What its answer is tried for, because the library promises it for the rows that were asked for
// only: below, at and above the tiles that algorithms have, as far as the product has such rows,
// and the most that it has. Beyond that an output might be more than any algorithm can address.
constexpr int64_t kCheckedRows[] = {1, 8, 24, 32, 64, 512, 8192};
constexpr int kMaxCandidates = 8;

struct CloseLibrary {
  void operator()(void* handle) const { (void)dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

struct Functions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoCheck) algo_check;
  decltype(&cublasLtMatmul) matmul;
};

template <typename Function>
Status Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) return Unavailable(std::string("cuBLASLt has no ") + name);
  return OkStatus();
}

StatusOr<Functions> FindAll(void* library) {
  Functions f{};
  RETURN_IF_ERROR(Find(library, "cublasLtCreate", f.create));
  RETURN_IF_ERROR(Find(library, "cublasLtDestroy", f.destroy));
  RETURN_IF_ERROR(Find(library, "cublasLtGetStatusString", f.status_string));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulDescCreate", f.desc_create));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulDescDestroy", f.desc_destroy));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulDescSetAttribute", f.desc_set));
  RETURN_IF_ERROR(Find(library, "cublasLtMatrixLayoutCreate", f.layout_create));
  RETURN_IF_ERROR(Find(library, "cublasLtMatrixLayoutDestroy", f.layout_destroy));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulPreferenceCreate", f.preference_create));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulPreferenceDestroy", f.preference_destroy));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulPreferenceSetAttribute", f.preference_set));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulAlgoGetHeuristic", f.heuristic));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmulAlgoCheck", f.algo_check));
  RETURN_IF_ERROR(Find(library, "cublasLtMatmul", f.matmul));
  return f;
}

// Only the version that this program's headers are of: its structs are.
StatusOr<Library> Load(const std::string& library) {
  const std::string versioned = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  std::vector<std::string> files = {library};
  if (library.empty()) files = {versioned, "/usr/local/cuda/lib64/" + versioned};
  std::string tried;
  for (const std::string& file : files) {
    // CUDA's libraries do not clean up behind themselves when they are unloaded.
    if (void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
      return Library(handle);
    }
    const char* why = dlerror();
    tried += (tried.empty() ? "" : "; ") + (why == nullptr ? file : std::string(why));
  }
  return Unavailable("cuBLASLt cannot be loaded (" + tried +
                     "); install CUDA's libraries, or name their folder in LD_LIBRARY_PATH");
}

cudaDataType_t TypeOf(DType dtype) {
  if (dtype == DType::kF32) return CUDA_R_32F;
  if (dtype == DType::kF16) return CUDA_R_16F;
  CHECK(dtype == DType::kBF16);
  return CUDA_R_16BF;
}

bool IsAligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }

class LtGemm final : public CudaGemm {
 public:
  LtGemm(CudaDevice& device, GemmChoice choice, Library library, const Functions& functions,
         cublasLtHandle_t handle, DeviceBuffer workspace)
      : device_(device),
        choice_(choice),
        library_(std::move(library)),
        lt_(functions),
        handle_(handle),
        workspace_(std::move(workspace)) {}
  ~LtGemm() override { (void)lt_.destroy(handle_); }
  LtGemm(const LtGemm&) = delete;
  LtGemm& operator=(const LtGemm&) = delete;

  Status Run(const CudaGemmArgs& args) override {
    CHECK(IsAligned(args.x) && IsAligned(args.w) && IsAligned(args.y));
    CHECK_LE(args.rows, args.max_rows);
    if (args.rows == 0) return OkStatus();
    Problem problem(lt_);
    RETURN_IF_ERROR(Describe(args, args.rows, problem));
    ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t* algorithm, Choose(args));
    const float one = 1, zero = 0;
    return Check(
        lt_.matmul(handle_, problem.desc, &one, args.w, problem.w, args.x, problem.x, &zero, args.y,
                   problem.y, args.y, problem.y, algorithm, workspace_.data(), kWorkspaceBytes,
                   static_cast<cudaStream_t>(device_.context().stream)),
        "cublasLtMatmul", args);
  }

 private:
  // The library's descriptions of one product.
  struct Problem {
    explicit Problem(const Functions& functions) : lt(functions) {}
    Problem(const Problem&) = delete;
    Problem& operator=(const Problem&) = delete;
    ~Problem() {
      if (desc != nullptr) (void)lt.desc_destroy(desc);
      for (const cublasLtMatrixLayout_t layout : {w, x, y}) {
        if (layout != nullptr) (void)lt.layout_destroy(layout);
      }
    }
    const Functions& lt;
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  };
  // rows (rounded up), max_rows, n, k, dtype, with bias
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, DType, bool>;

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

  // The heuristics' first algorithm that can do all it is taken for, asked for once for each shape.
  StatusOr<const cublasLtMatmulAlgo_t*> Choose(const CudaGemmArgs& args) {
    const auto rounded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(args.rows)));
    const int64_t rows = choice_ == GemmChoice::kFixed ? kReferenceRows : rounded;
    const Key key{rows, args.max_rows, args.n, args.k, args.dtype, args.bias != nullptr};
    if (const auto found = algorithms_.find(key); found != algorithms_.end()) {
      return &found->second;
    }
    Problem problem(lt_);
    RETURN_IF_ERROR(Describe(args, rows, problem));
    cublasLtMatmulPreference_t preference = nullptr;
    RETURN_IF_ERROR(
        Check(lt_.preference_create(&preference), "cublasLtMatmulPreferenceCreate", args));
    std::vector<cublasLtMatmulHeuristicResult_t> candidates(kMaxCandidates);
    const Status status = Ask(args, problem, preference, candidates);
    (void)lt_.preference_destroy(preference);
    RETURN_IF_ERROR(status);
    for (const cublasLtMatmulHeuristicResult_t& candidate : candidates) {
      ASSIGN_OR_RETURN(const bool usable, IsUsable(args, candidate));
      if (usable) return &algorithms_.emplace(key, candidate.algo).first->second;
    }
    return Check(CUBLAS_STATUS_NOT_SUPPORTED, "no algorithm", args);
  }

  StatusOr<bool> IsUsable(const CudaGemmArgs& args,
                          const cublasLtMatmulHeuristicResult_t& candidate) const {
    if (candidate.state != CUBLAS_STATUS_SUCCESS) return false;
    if (choice_ == GemmChoice::kFastest) return true;
    for (const int64_t rows : kCheckedRows) {
      if (rows >= args.max_rows) break;
      ASSIGN_OR_RETURN(const bool can, CanCompute(args, rows, candidate));
      if (!can) return false;
    }
    return CanCompute(args, args.max_rows, candidate);
  }

  StatusOr<bool> CanCompute(const CudaGemmArgs& args, int64_t rows,
                            const cublasLtMatmulHeuristicResult_t& candidate) const {
    Problem problem(lt_);
    RETURN_IF_ERROR(Describe(args, rows, problem));
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t checked = lt_.algo_check(handle_, problem.desc, problem.w, problem.x,
                                                  problem.y, problem.y, &candidate.algo, &result);
    return checked == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kWorkspaceBytes;
  }

  // Best first, as many as there are.
  Status Ask(const CudaGemmArgs& args, const Problem& problem,
             cublasLtMatmulPreference_t preference,
             std::vector<cublasLtMatmulHeuristicResult_t>& candidates) const {
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
    if (choice_ == GemmChoice::kFixed) {
      constexpr uint32_t kNoSplits = CUBLASLT_REDUCTION_SCHEME_NONE;
      RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kNoSplits));
    }
    int count = 0;
    RETURN_IF_ERROR(
        Check(lt_.heuristic(handle_, problem.desc, problem.w, problem.x, problem.y, problem.y,
                            preference, kMaxCandidates, candidates.data(), &count),
              "cublasLtMatmulAlgoGetHeuristic", args));
    candidates.resize(static_cast<size_t>(count));
    return OkStatus();
  }

  CudaDevice& device_;
  GemmChoice choice_;
  Library library_;
  Functions lt_;
  cublasLtHandle_t handle_;
  DeviceBuffer workspace_;
  std::map<Key, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace

StatusOr<std::unique_ptr<CudaGemm>> OpenCudaGemm(CudaDevice& device, GemmChoice choice,
                                                 const std::string& library) {
  ASSIGN_OR_RETURN(Library loaded, Load(library));
  ASSIGN_OR_RETURN(const Functions functions, FindAll(loaded.get()));
  ASSIGN_OR_RETURN(DeviceBuffer workspace, DeviceBuffer::Allocate(device, kWorkspaceBytes));
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = functions.create(&handle); status != CUBLAS_STATUS_SUCCESS) {
    return Unavailable(std::string("cuBLASLt cannot be used: ") + functions.status_string(status));
  }
  return std::unique_ptr<CudaGemm>(std::make_unique<LtGemm>(
      device, choice, std::move(loaded), functions, handle, std::move(workspace)));
}

}  // namespace aril::kernels
