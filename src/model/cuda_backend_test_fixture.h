// Test fixtures: a golden model with its adapters, and it with its pool on a device or on the CPU.

#ifndef ARIL_MODEL_CUDA_BACKEND_TEST_FIXTURE_H_
#define ARIL_MODEL_CUDA_BACKEND_TEST_FIXTURE_H_

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/resident_adapter.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"
#include "kernels/gemm/gemm_emulated.h"
#include "memory/page_pool.h"
#include "model/cpu_backend.h"
#include "model/cuda_arena.h"
#include "model/cuda_backend.h"
#include "model/model.h"
#include "model/pool_layout.h"
#include "spec/base_checkpoint.h"

namespace aril {

inline constexpr int64_t kMaxRows = 96;
inline constexpr int64_t kMaxPositions = 320;  // more than a split of attention has
inline constexpr int32_t kNumPages = 2048;

template <typename T>
T Value(StatusOr<T> value) {
  kernels::Require(value.status());
  return std::move(value).value();
}

// Files of a golden model, and its adapters.
struct Golden {
  explicit Golden(const std::filesystem::path& dir) : Golden(dir, dir / "adapters") {}
  // With the adapters in another folder's folders.
  Golden(const std::filesystem::path& dir, const std::filesystem::path& adapters_dir)
      : name(dir.filename()), path(dir), spec(Value(LoadModelSpec(dir))) {
    ThreadPool threads(1);
    kernels::CpuContext context(threads, kernels::AvailableIsas().back());
    const Checkpoint checkpoint = Value(OpenBaseCheckpoint(dir, spec));
    const BaseWeights base{&checkpoint, context.isa()};
    if (!std::filesystem::exists(adapters_dir)) return;
    for (const auto& adapter : std::filesystem::directory_iterator(adapters_dir)) {
      adapters.push_back(Value(
          Adapter::Open(adapter.path().string(), spec, 512, Adapter::Values::kUnknown, base)));
    }
  }

  static ResidentAdapter Place(const Adapter& adapter, PagePool& pool, const Arena& arena,
                               DType dtype) {
    std::vector<PageRef> pages;
    CHECK(pool.Allocate(PagesForAdapter(adapter, dtype, arena.page_bytes()), PageUse::kAdapter,
                        pages));
    return {adapter, dtype, arena, std::move(pages)};
  }

  // Of who uses these adapters.
  int64_t VocabSize(const std::vector<std::pair<int, float>>& uses) const {
    for (const auto& [adapter, weight] : uses) {
      const int64_t size = adapters[static_cast<size_t>(adapter)].spec().vocab_size;
      if (size != spec.vocab_size) return size;
    }
    return spec.vocab_size;
  }

  std::string name, path;
  ModelSpec spec;
  std::vector<Adapter> adapters;
};

inline std::vector<Golden> GoldensIn(const std::string& folder) {
  std::set<std::string> dirs;  // in their order: the first one is the same everywhere
  for (const auto& dir : std::filesystem::directory_iterator(SourcePath(folder))) {
    dirs.insert(dir.path());
  }
  return {dirs.begin(), dirs.end()};
}
inline std::vector<Golden> Goldens() { return GoldensIn("tests/goldens"); }
// Without adapters; each has a folder `dequantized` of the numbers that it stands for, in F32.
inline std::vector<Golden> QuantizedGoldens() { return GoldensIn("tests/goldens-quantized"); }

inline bool ChangesExperts(const Adapter& adapter) {
  for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
    if (adapter.num_sites(layer) > Site::Router().CountUpTo()) return true;
  }
  return false;
}

// With the smallest pages that take an adapter's rows: there a vocabulary has many runs, and
// lm_head several blocks.
inline kernels::KvLayout SmallPages(const ModelSpec& spec, DType dtype) {
  kernels::KvLayout layout = Value(ChooseKvLayout(spec, dtype));
  layout.page_tokens = 1;
  const int64_t longest = std::max(LongestAdapterRowBytes(spec, dtype), layout.state.row_bytes());
  while (layout.page_bytes() < longest) layout.page_tokens *= 2;
  layout.state.page_bytes = layout.page_bytes();
  return layout;
}

// Consecutive tokens of a sequence in a batch.
struct Piece {
  int sequence = 0;
  std::vector<std::pair<int, float>> adapters;  // with their weights
  std::vector<int32_t> tokens;
};

// A model with its pool and adapters in one place.
class Side {
 public:
  Side(const Golden& golden, DType dtype, kernels::CudaDevice* device,
       Quantization quantization = Quantization::kNone)
      : golden_(golden), layout_(SmallPages(golden.spec, dtype)) {
    Checkpoint checkpoint = Value(OpenBaseCheckpoint(golden.path, golden.spec));
    RoundLayers(golden.spec, quantization, &checkpoint);
    std::unique_ptr<Backend> backend;
    if (device == nullptr) {
      arena_ = std::make_unique<HostArena>(kNumPages, layout_.page_bytes());
      backend =
          std::make_unique<CpuBackend>(golden.spec, layout_,
                                       Value(LoadWeights(std::move(checkpoint), golden.spec, dtype,
                                                         quantization, context_, nullptr)),
                                       kMaxRows, kMaxPositions, context_);
    } else {
      arena_ = Value(CudaArena::Create(*device, kNumPages, layout_.page_bytes()));
      auto weights = Value(LoadDeviceWeights(std::move(checkpoint), golden.spec, dtype,
                                             quantization, *device, threads_, nullptr));
      auto cuda = Value(CudaBackend::Create(*device, MakeGemm(*device), golden.spec, layout_,
                                            std::move(weights), kMaxRows, kMaxPositions));
      cuda_ = cuda.get();
      backend = std::move(cuda);
    }
    model_ = std::make_unique<Model>(golden.spec, layout_, std::move(backend));
    for (int32_t id = 0; id < kNumPages; ++id) arena_->Poison(PageId(id));
    for (const Adapter& adapter : golden.adapters) {
      adapters_.push_back(Golden::Place(adapter, pool_, *arena_, dtype));
      adapters_.back().Copy(adapter, *arena_);
    }
  }

  // Of a device.
  int64_t num_replays() const { return cuda_->num_replays(); }

  // Of all rows of the last Run, one behind the other.
  const std::vector<float>& hidden_states() const { return hidden_states_; }

  // Logits of all rows, one behind the other, of each as many as its vocabulary has tokens.
  std::vector<float> Run(const std::vector<Piece>& pieces) {
    std::vector<int32_t> tokens, rows;
    std::vector<int32_t> vocab_sizes;  // of rows
    std::vector<kernels::AttentionSequence> sequences;
    std::vector<BatchSegment> segments;
    std::vector<std::vector<std::byte*>> pages, states;
    pages.reserve(pieces.size());
    states.reserve(pieces.size());
    for (const Piece& piece : pieces) {
      auto& sequence = sequences_[piece.sequence];
      const auto first_row = static_cast<int32_t>(tokens.size());
      const auto num_rows = static_cast<int32_t>(piece.tokens.size());
      tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
      vocab_sizes.resize(tokens.size(), static_cast<int32_t>(golden_.VocabSize(piece.adapters)));
      const int64_t end = sequence.num_tokens + num_rows;
      const int64_t missing = (end + layout_.page_tokens - 1) / layout_.page_tokens -
                              static_cast<int64_t>(sequence.pages.size());
      CHECK(pool_.Allocate(std::max<int64_t>(0, missing), PageUse::kKv, sequence.pages));
      const int64_t of_state = layout_.state.num_pages() - std::ssize(sequence.state_pages);
      CHECK(pool_.Allocate(of_state, PageUse::kKv, sequence.state_pages));
      sequences.push_back({.first_row = first_row,
                           .num_rows = num_rows,
                           .first_position = sequence.num_tokens,
                           .pages = pages.emplace_back(AddressesOf(sequence.pages)),
                           .state = states.emplace_back(AddressesOf(sequence.state_pages))});
      sequence.num_tokens = end;
      for (const auto& [adapter, weight] : piece.adapters) {
        segments.push_back({first_row, num_rows, &adapters_[static_cast<size_t>(adapter)], weight});
      }
    }
    kernels::Require(model_->Forward({tokens, sequences, segments}));
    std::vector<float> all;
    hidden_states_.clear();
    for (size_t first = 0; first < tokens.size(); first += Model::kMaxLogitRows) {
      rows.clear();
      for (size_t r = first; r < std::min(tokens.size(), first + Model::kMaxLogitRows); ++r) {
        rows.push_back(static_cast<int32_t>(r));
      }
      const MatrixView<const float> hidden = Value(model_->HiddenStates(rows));
      for (int64_t r = 0; r < hidden.rows; ++r) {
        hidden_states_.insert(hidden_states_.end(), hidden.row(r), hidden.row(r) + hidden.cols);
      }
      if (!model_->spec().has_lm_head) continue;
      const MatrixView<const float> logits = Value(model_->Logits(rows));
      std::vector<kernels::SampleRow> greedy;
      for (int64_t r = 0; r < logits.rows; ++r) {
        greedy.push_back({.vocab = vocab_sizes[first + static_cast<size_t>(r)]});
        all.insert(all.end(), logits.row(r), logits.row(r) + greedy.back().vocab);
      }
      if (cuda_ != nullptr) kernels::Require(model_->Choose(rows, greedy));
    }
    kernels::Require(model_->End());
    const std::span<const int32_t> chosen = Value(model_->Wait());
    if (cuda_ != nullptr && !all.empty()) ExpectTheLargest(all, vocab_sizes, chosen);
    return all;
  }

 private:
  std::vector<std::byte*> AddressesOf(const std::vector<PageRef>& refs) const {
    std::vector<std::byte*> addresses;
    for (const PageRef& page : refs) addresses.push_back(arena_->Address(page.id()));
    return addresses;
  }

  struct Sequence {
    std::vector<PageRef> pages, state_pages;
    int64_t num_tokens = 0;
  };

  // Temperature 0, of rows of logits.
  static void ExpectTheLargest(std::span<const float> logits, std::span<const int32_t> vocab_sizes,
                               std::span<const int32_t> chosen) {
    std::vector<int32_t> expected;
    for (const int32_t size : vocab_sizes) {
      const auto row = logits.first(static_cast<size_t>(size));
      logits = logits.subspan(row.size());
      expected.push_back(static_cast<int32_t>(std::ranges::max_element(row) - row.begin()));
    }
    EXPECT_EQ(std::vector<int32_t>(chosen.begin(), chosen.end()), expected);
  }

  static std::unique_ptr<kernels::CudaGemm> MakeGemm(kernels::CudaDevice& device) {
    if (device.name().starts_with("emulator")) return kernels::MakeEmulatedGemm(device);
    return Value(kernels::OpenCudaGemm(device, kernels::GemmChoice::kInvariant));
  }

  const Golden& golden_;
  ThreadPool threads_{2};
  kernels::CpuContext context_{threads_, kernels::AvailableIsas().back()};
  kernels::KvLayout layout_;
  PagePool pool_{kNumPages};
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Model> model_;
  const CudaBackend* cuda_ = nullptr;
  std::vector<ResidentAdapter> adapters_;
  std::map<int, Sequence> sequences_;
  std::vector<float> hidden_states_;
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_BACKEND_TEST_FIXTURE_H_
