#include "adapters/resident_adapter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/checked.h"

namespace aril {
namespace {

// Consecutive rows of a matrix on one page.
struct Placement {
  int64_t page = 0;          // index into the adapter's pages
  int64_t offset_bytes = 0;  // of the first row
  int32_t first_row = 0;
  int32_t num_rows = 0;
};

// Deals out rows page after page.
class RowPlacer {
 public:
  explicit RowPlacer(int64_t page_bytes) : page_bytes_(page_bytes) {}

  // Calls take(placement) for all rows of a matrix, in order.
  template <typename Take>
  void Place(int32_t num_rows, int64_t row_bytes, const Take& take) {
    CHECK_LE(row_bytes, page_bytes_);
    for (int32_t row = 0; row < num_rows;) {
      if (offset_ + row_bytes > page_bytes_) {
        ++page_;
        offset_ = 0;
      }
      const auto fit = static_cast<int32_t>(
          std::min<int64_t>(num_rows - row, (page_bytes_ - offset_) / row_bytes));
      take(Placement{page_, offset_, row, fit});
      offset_ += fit * row_bytes;
      row += fit;
    }
  }

  int64_t pages_used() const { return offset_ == 0 ? page_ : page_ + 1; }

 private:
  const int64_t page_bytes_;
  int64_t page_ = 0;
  int64_t offset_ = 0;
};

int64_t RowBytes(int64_t width, DType dtype) { return width * static_cast<int64_t>(SizeOf(dtype)); }

// Columns of lm_head in one block: as many as fill a page with one row, or an equal share of it, so
// that rows fill pages; and no more than stay in the first-level cache.
int64_t BlockWidth(DType dtype, int64_t page_bytes) {
  constexpr int64_t kMaxWidth = 2048;
  constexpr int64_t kMultiple = 16;
  const int64_t page_elements = page_bytes / static_cast<int64_t>(SizeOf(dtype));
  const int64_t width = page_elements / CeilDiv(page_elements, kMaxWidth);
  return std::max(width / kMultiple, int64_t{1}) * kMultiple;
}

// Where the rows of a matrix of the pool come from.
struct Source {
  // kRows: row i is row i of the tensor. kColumns: row i is column first_col + i · col_step of the
  // tensor's rows [first_row, first_row + width). kGains: the numbers [first_row, first_row +
  // width), rounded; and what was rounded away.
  enum class Kind { kRows, kColumns, kGains };
  Kind kind;
  const TensorView* tensor = nullptr;
  const std::vector<float>* gains = nullptr;
  int64_t first_row = 0;
  int64_t num_rows = 0;  // of the pool's matrix
  int64_t width = 0;
  int64_t first_col = 0;
  int64_t col_step = 1;
};

Source RowsOf(const TensorView& tensor) {
  return {Source::Kind::kRows, &tensor, nullptr, 0, tensor.shape[0], tensor.shape[1]};
}

Source ColumnsOf(const TensorView& tensor) {
  return {Source::Kind::kColumns, &tensor, nullptr, 0, tensor.shape[1], tensor.shape[0]};
}

// Bᵀ of some outputs.
Source BOf(const LoraPair& pair, int64_t first, int64_t width) {
  return {Source::Kind::kColumns, &pair.b, nullptr,          first,
          pair.a.shape[0],        width,   pair.b_first_col, pair.b_col_step};
}

Source GainsOf(const std::vector<float>& gains, int64_t first, int64_t width) {
  return {Source::Kind::kGains, nullptr, &gains, first, 2, width};
}

// Calls place(source) for every matrix in the order in which they lie in the pool, and visits with
// what that returned. In one place, so that counting, laying out and copying agree.
template <typename Place>
class Layout {
 public:
  Layout(const Adapter& adapter, DType dtype, int64_t page_bytes, Place place)
      : adapter_(adapter), dtype_(dtype), page_bytes_(page_bytes), place_(std::move(place)) {}

  // visit(layer, site, weights) for every adapted site.
  template <typename Visit>
  void Layers(const Visit& visit) {
    for (int64_t layer = 0; layer < adapter_.num_layers(); ++layer) {
      const LoraPair* before = nullptr;  // of the same layer
      kernels::LoraMatrix a;
      for (int64_t i = 0; i < adapter_.num_sites(layer); ++i) {
        const Site site = Site::At(i);
        const LoraPair* pair = adapter_.Find(layer, site);
        if (pair == nullptr) continue;
        const bool is_same_module = before != nullptr && before->a.data == pair->a.data;
        if (!is_same_module) a = place_(RowsOf(pair->a));
        before = pair;
        visit(layer, site, Weights(*pair, adapter_.spec().At(layer, site), a, 0, pair->b.shape[0]));
      }
    }
  }

  OuterWeights Outer() {
    OuterWeights outer{.vocab = adapter_.spec().vocab_size};
    if (const LoraPair* pair = adapter_.embedding()) {
      outer.embedding_rank = static_cast<int32_t>(adapter_.spec().embedding.rank);
      outer.embedding_scale = static_cast<float>(adapter_.spec().embedding.scale);
      outer.embedding_a = place_(ColumnsOf(pair->a));
      outer.embedding_b = place_(BOf(*pair, 0, pair->b.shape[0]));
      if (HasGains(*pair)) {
        outer.embedding_gain = place_(GainsOf(pair->gains, 0, pair->b.shape[0]));
      }
    }
    if (const LoraPair* pair = adapter_.lm_head()) {
      const int64_t vocab = pair->b.shape[0];
      const int64_t step = BlockWidth(dtype_, page_bytes_);
      outer.lm_head_block_cols = step;
      const kernels::LoraMatrix a = place_(RowsOf(pair->a));
      for (int64_t first = 0; first < vocab; first += step) {
        const int64_t width = std::min(step, vocab - first);
        outer.lm_head.push_back(
            {first, width, Weights(*pair, adapter_.spec().lm_head, a, first, width)});
      }
    }
    if (const TensorView* table = adapter_.embedding_table()) {
      outer.embedding_table = place_(RowsOf(*table));
    }
    if (const TensorView* own = adapter_.lm_head_table()) {
      const TensorView* const other = adapter_.embedding_table();
      const bool is_same = other != nullptr && other->data == own->data;
      outer.lm_head_table = is_same ? outer.embedding_table : place_(RowsOf(*own));
    }
    return outer;
  }

 private:
  bool HasGains(const LoraPair& pair) const {
    return adapter_.spec().use_dora && pair.tokens == nullptr;
  }

  kernels::LoraWeights Weights(const LoraPair& pair, const LoraModule& module,
                               const kernels::LoraMatrix& a, int64_t first, int64_t width) {
    kernels::LoraWeights weights{.rank = static_cast<int32_t>(module.rank),
                                 .scale = static_cast<float>(module.scale),
                                 .a = a,
                                 .b = place_(BOf(pair, first, width))};
    if (HasGains(pair)) weights.gain = place_(GainsOf(pair.gains, first, width));
    return weights;
  }

  const Adapter& adapter_;
  const DType dtype_;
  const int64_t page_bytes_;
  Place place_;
};

template <typename T>
T Narrow(float value) {
  if constexpr (std::is_same_v<T, BF16>) return ToBF16(value);
  if constexpr (std::is_same_v<T, F16>) return ToF16(value);
  if constexpr (std::is_same_v<T, float>) return value;
}

// Columns that are far from each other, each value by itself, of a tensor of that type.
template <typename T, typename From>
void CopyDistantColumnsOf(const Source& from, const kernels::MatrixRun& run, T* to) {
  const int64_t cols = from.tensor->shape[1];
  const int64_t first_col = from.first_col + run.first_row * from.col_step;
  CHECK_LE(from.first_row + from.width, from.tensor->shape[0]);
  CHECK_LT(first_col + (run.num_rows - 1) * from.col_step, cols);
  for (int64_t i = 0; i < from.width; ++i) {
    const int64_t first = (from.first_row + i) * cols + first_col;
    for (int32_t j = 0; j < run.num_rows; ++j) {
      From value;
      const auto at = static_cast<size_t>(first + j * from.col_step);
      std::memcpy(&value, from.tensor->data + at * sizeof(value), sizeof(value));
      if constexpr (std::is_same_v<T, From>) {
        to[j * from.width + i] = value;
      } else if constexpr (std::is_same_v<From, float>) {
        to[j * from.width + i] = Narrow<T>(value);
      } else {
        to[j * from.width + i] = Narrow<T>(ToFloat(value));
      }
    }
  }
}
template <typename T>
void CopyDistantColumns(const Source& from, const kernels::MatrixRun& run, T* to) {
  switch (from.tensor->dtype) {
    case DType::kF32:
      return CopyDistantColumnsOf<T, float>(from, run, to);
    case DType::kBF16:
      return CopyDistantColumnsOf<T, BF16>(from, run, to);
    default:
      CHECK(from.tensor->dtype == DType::kF16);
      return CopyDistantColumnsOf<T, F16>(from, run, to);
  }
}

// A stretch of the tensor's rows at a time: what is read in rows is written in columns. Of long
// rows only the run's part is read.
template <typename T>
void CopyColumns(const Source& from, const kernels::MatrixRun& run, T* to) {
  constexpr int64_t kStretch = 64;
  constexpr int64_t kLong = 8;
  if (from.col_step != 1) return CopyDistantColumns(from, run, to);
  const int64_t cols = from.tensor->shape[1];
  const bool whole = cols <= kLong * run.num_rows;
  const int64_t first_col = from.first_col + run.first_row;
  const int64_t stride = whole ? cols : run.num_rows;
  const int64_t skip = whole ? first_col : 0;
  std::vector<float> stretch(static_cast<size_t>(kStretch * stride));
  for (int64_t first = 0; first < from.width; first += kStretch) {
    const int64_t count = std::min(kStretch, from.width - first);
    const int64_t row = from.first_row + first;
    if (whole) {
      CopyAsFloat(*from.tensor, row * cols, count * cols, stretch.data());
    } else {
      for (int64_t i = 0; i < count; ++i) {
        CopyAsFloat(*from.tensor, (row + i) * cols + first_col, run.num_rows,
                    stretch.data() + i * stride);
      }
    }
    for (int32_t j = 0; j < run.num_rows; ++j) {
      const float* column = stretch.data() + skip + j;
      T* values = to + j * from.width + first;
      for (int64_t i = 0; i < count; ++i) {
        values[i] = Narrow<T>(column[i * stride]);
      }
    }
  }
}

// Of F32 the second row is zero.
template <typename T>
void CopyGains(const Source& from, const kernels::MatrixRun& run, T* to) {
  for (int32_t j = 0; j < run.num_rows; ++j) {
    for (int64_t i = 0; i < from.width; ++i) {
      const float gain = (*from.gains)[static_cast<size_t>(from.first_row + i)];
      const bool is_high = run.first_row + j == 0;
      T& value = to[j * from.width + i];
      if constexpr (std::is_same_v<T, float>) {
        value = is_high ? gain : 0;
      } else {
        value = Narrow<T>(is_high ? gain : gain - ToFloat(Narrow<T>(gain)));
      }
    }
  }
}

template <typename T>
void CopyRun(const Source& from, DType dtype, const kernels::MatrixRun& run, std::byte* to) {
  switch (from.kind) {
    case Source::Kind::kRows:
      return CopyElements(*from.tensor, int64_t{run.first_row} * from.width,
                          int64_t{run.num_rows} * from.width, dtype, to);
    case Source::Kind::kColumns:
      return CopyColumns(from, run, reinterpret_cast<T*>(to));
    case Source::Kind::kGains:
      return CopyGains(from, run, reinterpret_cast<T*>(to));
  }
}

template <typename Place>
Layout<Place> MakeLayout(const Adapter& adapter, DType dtype, int64_t page_bytes, Place place) {
  return {adapter, dtype, page_bytes, std::move(place)};
}

constexpr auto kIgnore = [](auto&&...) {};

// What an adapter takes.
struct Extent {
  int64_t pages = 0;
  size_t runs = 0;  // of all its matrices
};

Extent CountExtent(const Adapter& adapter, DType dtype, int64_t page_bytes) {
  Extent extent;
  RowPlacer placer(page_bytes);
  auto layout = MakeLayout(adapter, dtype, page_bytes, [&](const Source& source) {
    placer.Place(static_cast<int32_t>(source.num_rows), RowBytes(source.width, dtype),
                 [&](const Placement&) { ++extent.runs; });
    return kernels::LoraMatrix();
  });
  layout.Layers(kIgnore);
  layout.Outer();
  extent.pages = placer.pages_used();
  return extent;
}

int64_t NextSerial() {
  static std::atomic<int64_t> next = 0;
  return next++;
}

}  // namespace

int64_t PagesForAdapter(const Adapter& adapter, DType dtype, int64_t page_bytes) {
  return CountExtent(adapter, dtype, page_bytes).pages;
}

int64_t LongestAdapterRowBytes(const ModelSpec& base, DType dtype) {
  int64_t longest = 0;
  for (const int64_t layer : base.LayersOfEachKind()) {
    for (const LinearModule& module : base.LinearModules(layer)) {
      for (int64_t i = 0; i < module.num_sites; ++i) {
        longest = std::max({longest, base.InFeatures(module), base.OutFeatures(module.At(i))});
      }
    }
  }
  return RowBytes(longest, dtype);
}

ResidentAdapter::ResidentAdapter(const Adapter& adapter, DType dtype, const Arena& arena,
                                 std::vector<PageRef> pages)
    : dtype_(dtype),
      page_bytes_(arena.page_bytes()),
      serial_(NextSerial()),
      pages_(std::move(pages)),
      layers_(static_cast<size_t>(adapter.num_layers())) {
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const int64_t num_sites = adapter.num_sites(static_cast<int64_t>(layer));
    layers_[layer].resize(static_cast<size_t>(std::max<int64_t>(num_sites, kNumProjections)));
  }
  const Extent extent = CountExtent(adapter, dtype, page_bytes_);
  CHECK_EQ(extent.pages, num_pages());
  runs_.reserve(extent.runs);  // matrices point to theirs
  RowPlacer placer(page_bytes_);
  auto layout = MakeLayout(adapter, dtype, page_bytes_, [&](const Source& source) {
    const int64_t row_bytes = RowBytes(source.width, dtype);
    const size_t first_run = runs_.size();
    placer.Place(static_cast<int32_t>(source.num_rows), row_bytes, [&](const Placement& p) {
      std::byte* page = arena.Address(pages_[static_cast<size_t>(p.page)].id());
      runs_.push_back({page + p.offset_bytes, p.first_row, p.num_rows});
    });
    used_bytes_ += source.num_rows * row_bytes;
    return kernels::LoraMatrix{std::span(runs_).subspan(first_run), row_bytes};
  });
  layout.Layers([this](int64_t layer, Site site, const kernels::LoraWeights& weights) {
    layers_[static_cast<size_t>(layer)][static_cast<size_t>(site.index())] = weights;
  });
  outer_ = layout.Outer();
  CHECK_EQ(runs_.size(), extent.runs);
}

std::span<const kernels::LoraWeights> ResidentAdapter::Sites(int64_t layer, Site first,
                                                             size_t count) const {
  static const std::array<kernels::LoraWeights, kNumProjections> kNone;
  const std::vector<kernels::LoraWeights>& sites = layers_[static_cast<size_t>(layer)];
  const auto begin = static_cast<size_t>(first.index());
  return begin < sites.size() ? std::span(sites).subspan(begin, count)
                              : std::span<const kernels::LoraWeights>(kNone).first(count);
}

bool ResidentAdapter::changes_experts() const {
  constexpr auto kOthers = static_cast<size_t>(Site::Router().CountUpTo());
  return std::ranges::any_of(layers_, [](const auto& sites) { return sites.size() > kOthers; });
}

void ResidentAdapter::Copy(const Adapter& adapter, const Arena& arena) const {
  auto next = runs_.begin();
  auto layout = MakeLayout(adapter, dtype_, page_bytes_, [&](const Source& source) {
    for (int64_t row = 0; row < source.num_rows; row += next->num_rows, ++next) {
      const kernels::MatrixRun& run = *next;
      auto* to = const_cast<std::byte*>(run.data);  // ours until the adapter is ready
      arena.Fill(to, run.num_rows * RowBytes(source.width, dtype_), [&](std::byte* host) {
        switch (dtype_) {
          case DType::kF32:
            return CopyRun<float>(source, dtype_, run, host);
          case DType::kF16:
            return CopyRun<F16>(source, dtype_, run, host);
          default:
            CHECK(dtype_ == DType::kBF16);
            return CopyRun<BF16>(source, dtype_, run, host);
        }
      });
    }
    return kernels::LoraMatrix();
  });
  layout.Layers(kIgnore);
  layout.Outer();
}

}  // namespace aril
