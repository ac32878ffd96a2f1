// cuBLASLt, loaded when it is asked for: it has half a gigabyte, which a program without a GPU must
// not need.

#ifndef ARIL_KERNELS_GEMM_CUBLAS_LT_H_
#define ARIL_KERNELS_GEMM_CUBLAS_LT_H_

#include <cublasLt.h>
#include <dlfcn.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace aril::kernels {

// The functions that matrix products need; valid as long as `library`.
struct CublasLt {
  struct Close {
    void operator()(void* handle) const { (void)dlclose(handle); }
  };
  std::unique_ptr<void, Close> library;

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

// `file` as for dlopen; empty: where CUDA installs it. Unavailable, naming the files that were
// tried or the function that is missing.
StatusOr<CublasLt> LoadCublasLt(const std::string& file);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_CUBLAS_LT_H_
