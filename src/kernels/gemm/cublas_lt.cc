#include "kernels/gemm/cublas_lt.h"

#include <utility>
#include <vector>

namespace aril::kernels {
namespace {

// Only the version that this program's headers are of: its structs are.
Status Open(const std::string& library, CublasLt& lt) {
  const std::string versioned = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  std::vector<std::string> files = {library};
  if (library.empty()) files = {versioned, "/usr/local/cuda/lib64/" + versioned};
  std::string tried;
  for (const std::string& file : files) {
    // CUDA's libraries do not clean up behind themselves when they are unloaded.
    lt.library.reset(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
    if (lt.library != nullptr) return OkStatus();
    const char* why = dlerror();
    tried += (tried.empty() ? "" : "; ") + (why == nullptr ? file : std::string(why));
  }
  return Unavailable("cuBLASLt cannot be loaded (" + tried +
                     "); install CUDA's libraries, or name their folder in LD_LIBRARY_PATH");
}

template <typename Function>
Status Find(const CublasLt& lt, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(lt.library.get(), name));
  if (function == nullptr) return Unavailable(std::string("cuBLASLt has no ") + name);
  return OkStatus();
}

}  // namespace

StatusOr<CublasLt> LoadCublasLt(const std::string& file) {
  CublasLt lt{};
  RETURN_IF_ERROR(Open(file, lt));
  RETURN_IF_ERROR(Find(lt, "cublasLtCreate", lt.create));
  RETURN_IF_ERROR(Find(lt, "cublasLtDestroy", lt.destroy));
  RETURN_IF_ERROR(Find(lt, "cublasLtGetStatusString", lt.status_string));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatmulDescCreate", lt.desc_create));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatmulDescDestroy", lt.desc_destroy));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatmulDescSetAttribute", lt.desc_set));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatrixLayoutCreate", lt.layout_create));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatrixLayoutDestroy", lt.layout_destroy));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatmulPreferenceCreate", lt.preference_create));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatmulPreferenceDestroy", lt.preference_destroy));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatmulPreferenceSetAttribute", lt.preference_set));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatmulAlgoGetHeuristic", lt.heuristic));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatmulAlgoCheck", lt.algo_check));
  RETURN_IF_ERROR(Find(lt, "cublasLtMatmul", lt.matmul));
  return lt;
}

}  // namespace aril::kernels
