#include "adapters/resident_adapter.h"

#include <algorithm>

#include "base/check.h"

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

  std::vector<Placement> Place(int32_t num_rows, int64_t row_bytes) {
    CHECK_LE(row_bytes, page_bytes_);
    std::vector<Placement> placements;
    for (int32_t row = 0; row < num_rows;) {
      if (offset_ + row_bytes > page_bytes_) {
        ++page_;
        offset_ = 0;
      }
      const auto fit = static_cast<int32_t>(
          std::min<int64_t>(num_rows - row, (page_bytes_ - offset_) / row_bytes));
      placements.push_back({page_, offset_, row, fit});
      offset_ += fit * row_bytes;
      row += fit;
    }
    return placements;
  }

  int64_t pages_used() const { return offset_ == 0 ? page_ : page_ + 1; }

 private:
  const int64_t page_bytes_;
  int64_t page_ = 0;
  int64_t offset_ = 0;
};

int64_t RowBytes(int64_t width, DType dtype) { return width * static_cast<int64_t>(SizeOf(dtype)); }

// Calls visit(layer, projection, pair) for every adapted module, in the order in which they lie in
// the pool.
template <typename Visit>
void ForEachPair(const Adapter& adapter, const Visit& visit) {
  for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
    for (const Projection projection : kAllProjections) {
      if (const LoraPair* pair = adapter.Find(layer, projection)) visit(layer, projection, *pair);
    }
  }
}

// Writes elements [first, first + count) of a tensor as `dtype`.
void CopyElements(const TensorView& from, int64_t first, int64_t count, DType dtype,
                  std::byte* to) {
  if (dtype == DType::kF32) {
    CopyAsFloat(from, first, count, reinterpret_cast<float*>(to));
  } else {
    CopyAsBF16(from, first, count, reinterpret_cast<BF16*>(to));
  }
}

// lora_A [rank, width]: row by row as it is.
void CopyRows(const TensorView& from, DType dtype, const kernels::MatrixRun& run, std::byte* to) {
  const int64_t width = from.shape[1];
  CopyElements(from, int64_t{run.first_row} * width, int64_t{run.num_rows} * width, dtype, to);
}

// lora_B [width, rank]: columns of the file become rows of the pool, a stretch of them at a time.
template <typename T>
void CopyColumns(const TensorView& from, const kernels::MatrixRun& run, T* to) {
  constexpr int64_t kStretch = 64;
  const int64_t width = from.shape[0];
  const int64_t rank = from.shape[1];
  std::vector<float> stretch(static_cast<size_t>(kStretch * rank));
  for (int64_t first = 0; first < width; first += kStretch) {
    const int64_t count = std::min(kStretch, width - first);
    CopyAsFloat(from, first * rank, count * rank, stretch.data());
    for (int32_t j = 0; j < run.num_rows; ++j) {
      const float* column = stretch.data() + int64_t{run.first_row} + j;
      T* row = to + j * width + first;
      for (int64_t i = 0; i < count; ++i) {
        if constexpr (std::is_same_v<T, float>) {
          row[i] = column[i * rank];
        } else {
          row[i] = ToBF16(column[i * rank]);
        }
      }
    }
  }
}

}  // namespace

int64_t PagesForAdapter(const Adapter& adapter, DType dtype, int64_t page_bytes) {
  RowPlacer placer(page_bytes);
  ForEachPair(adapter, [&](int64_t, Projection, const LoraPair& pair) {
    const auto rank = static_cast<int32_t>(pair.a.shape[0]);
    placer.Place(rank, RowBytes(pair.a.shape[1], dtype));
    placer.Place(rank, RowBytes(pair.b.shape[0], dtype));
  });
  return placer.pages_used();
}

int64_t LongestAdapterRowBytes(const ModelSpec& base, DType dtype) {
  int64_t longest = 0;
  for (const Projection projection : kAllProjections) {
    longest = std::max({longest, base.InFeatures(projection), base.OutFeatures(projection)});
  }
  return RowBytes(longest, dtype);
}

ResidentAdapter::ResidentAdapter(const Adapter& adapter, DType dtype, const Arena& arena,
                                 std::vector<PageRef> pages)
    : dtype_(dtype), pages_(std::move(pages)), layers_(static_cast<size_t>(adapter.num_layers())) {
  RowPlacer placer(arena.page_bytes());
  const auto place = [&](int64_t rank, int64_t width) {
    const int64_t row_bytes = RowBytes(width, dtype);
    std::vector<kernels::MatrixRun> runs;
    for (const Placement& p : placer.Place(static_cast<int32_t>(rank), row_bytes)) {
      std::byte* data = arena.Address(pages_[static_cast<size_t>(p.page)].id()) + p.offset_bytes;
      runs.push_back({data, p.first_row, p.num_rows});
      pieces_.push_back({runs.back(), data});
    }
    runs_.push_back(std::move(runs));
    return kernels::LoraMatrix{runs_.back(), row_bytes};
  };
  ForEachPair(adapter, [&](int64_t layer, Projection projection, const LoraPair& pair) {
    const kernels::LoraMatrix a = place(pair.a.shape[0], pair.a.shape[1]);
    const kernels::LoraMatrix b = place(pair.b.shape[1], pair.b.shape[0]);
    const LoraModule& module = adapter.spec().At(layer, projection);
    layers_[static_cast<size_t>(layer)][static_cast<size_t>(projection)] = {
        .rank = static_cast<int32_t>(module.rank),
        .scale = static_cast<float>(module.scale),
        .a = a,
        .b = b};
  });
  CHECK_EQ(placer.pages_used(), num_pages());
}

void ResidentAdapter::Copy(const Adapter& adapter) const {
  auto piece = pieces_.begin();
  // The pieces of one matrix, to its last row.
  const auto copy = [&](int64_t rank, const auto& copy_piece) {
    for (int64_t done = 0; done < rank; ++piece) {
      copy_piece(*piece);
      done += piece->run.num_rows;
    }
  };
  ForEachPair(adapter, [&](int64_t, Projection, const LoraPair& pair) {
    const int64_t rank = pair.a.shape[0];
    copy(rank, [&](const Piece& p) { CopyRows(pair.a, dtype_, p.run, p.to); });
    copy(rank, [&](const Piece& p) {
      if (dtype_ == DType::kF32) {
        CopyColumns(pair.b, p.run, reinterpret_cast<float*>(p.to));
      } else {
        CopyColumns(pair.b, p.run, reinterpret_cast<BF16*>(p.to));
      }
    });
  });
}

}  // namespace aril
