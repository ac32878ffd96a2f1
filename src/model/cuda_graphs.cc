#include "model/cuda_graphs.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace aril {
namespace {

// Each has some hundred launches, at about 10 KB of the device's memory: for a model of 32 layers,
// whose adapters change all projections, 6 MB; twice as much for Qwen3-30B-A3B. More shapes than
// that do not come again and again.
constexpr size_t kMaxGraphs = 64;

}  // namespace

CudaGraphs::CudaGraphs(kernels::CudaDevice& device) : device_(device), max_graphs_(kMaxGraphs) {}

Status CudaGraphs::Run(const CudaStepShape& shape, const std::function<Status()>& operators) {
  ++num_calls_;
  const auto found = graphs_.find(shape);
  if (found == graphs_.end()) {
    if (graphs_.size() >= max_graphs_) RETURN_IF_ERROR(ForgetOldest());
    if (max_graphs_ > 0) graphs_.emplace(shape, Graph{.last_use = num_calls_});
    return operators();
  }
  Graph& graph = found->second;
  graph.last_use = num_calls_;
  if (graph.captured == nullptr) {
    StatusOr<std::unique_ptr<kernels::CudaGraph>> captured = device_.Capture(operators);
    if (captured.status().code() == StatusCode::kResourceExhausted) {
      RETURN_IF_ERROR(GiveUp(captured.status()));
      return operators();
    }
    ASSIGN_OR_RETURN(graph.captured, std::move(captured));
  }
  ++num_replays_;
  return graph.captured->Replay();
}

Status CudaGraphs::ForgetOldest() {
  RETURN_IF_ERROR(device_.Synchronize());
  const auto oldest = std::ranges::min_element(
      graphs_, {}, [](const auto& entry) { return entry.second.last_use; });
  if (oldest != graphs_.end()) graphs_.erase(oldest);
  return OkStatus();
}

// Steps are as right without them. The memory is wanted for more than graphs, so that fewer should
// stay than there was room for.
Status CudaGraphs::GiveUp(const Status& why) {
  RETURN_IF_ERROR(device_.Synchronize());
  const auto captured = static_cast<size_t>(std::ranges::count_if(
      graphs_, [](const auto& entry) { return entry.second.captured != nullptr; }));
  max_graphs_ = captured / 2;
  graphs_.clear();
  LogWarning(StrCat("from now on at most ", max_graphs_, " shapes of steps have a graph: ", why));
  return OkStatus();
}

}  // namespace aril
