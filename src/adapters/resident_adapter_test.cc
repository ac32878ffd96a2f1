// Where an adapter's values lie in the pool.

#include "adapters/resident_adapter.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>

#include "base/check.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"
#include "spec/base_checkpoint.h"

namespace aril {
namespace {

struct Golden {
  std::string name;
  ModelSpec base;
  Adapter adapter;
};

std::vector<Golden> Goldens() {
  std::vector<Golden> goldens;
  for (const auto& model : std::filesystem::directory_iterator(SourcePath("tests/goldens"))) {
    auto base = LoadModelSpec(model.path());
    CHECK(base.ok());
    const auto checkpoint = OpenBaseCheckpoint(model.path(), *base);
    CHECK(checkpoint.ok());
    const BaseWeights weights{&*checkpoint, kernels::AvailableIsas().back()};
    for (const auto& dir : std::filesystem::directory_iterator(model.path() / "adapters")) {
      auto adapter = Adapter::Open(dir.path().string(), *base, kMaxLoraRank,
                                   Adapter::Values::kUnknown, weights);
      CHECK(adapter.ok());
      goldens.push_back({dir.path(), *base, *std::move(adapter)});
    }
  }
  return goldens;
}

// Blocks of lm_head's columns: a page's row, or an equal share of it, in multiples of 16.
std::vector<int64_t> BlockWidths(int64_t vocab, DType dtype, int64_t page_bytes) {
  const int64_t elements = page_bytes / static_cast<int64_t>(SizeOf(dtype));
  const int64_t step = std::max<int64_t>(elements / ((elements + 2047) / 2048) / 16, 1) * 16;
  std::vector<int64_t> widths(static_cast<size_t>(vocab / step), step);
  if (vocab % step > 0) widths.push_back(vocab % step);
  return widths;
}

// The site before it whose A it has, being of one module, or of one part of a stack of experts;
// none if it is the first.
std::optional<Site> Before(const Golden& golden, int64_t layer, Site site) {
  const bool is_of_stack =
      site.is_of_expert() && golden.adapter.spec().stacked[static_cast<size_t>(layer)].front();
  if (is_of_stack && site.projection() == Projection::kUp) return Site::At(site.index() - 1);
  for (const LinearModule& module : golden.base.LinearModules(layer)) {
    const int64_t i = site.index() - module.first.index();
    if (i > 0 && i < module.num_sites) return Site::At(site.index() - 1);
  }
  return std::nullopt;
}

// The rows of all matrices, in bytes, in the order of the pool.
std::vector<int64_t> RowLengths(const Golden& golden, DType dtype, int64_t page_bytes) {
  const Adapter& adapter = golden.adapter;
  std::vector<int64_t> lengths;
  const auto add = [&](int64_t rank, int64_t width) {
    lengths.insert(lengths.end(), static_cast<size_t>(rank),
                   width * static_cast<int64_t>(SizeOf(dtype)));
  };
  for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
    for (int64_t i = 0; i < adapter.num_sites(layer); ++i) {
      const LoraPair* pair = adapter.Find(layer, Site::At(i));
      if (pair == nullptr) continue;
      if (!Before(golden, layer, Site::At(i))) add(pair->a.shape[0], pair->a.shape[1]);
      add(pair->a.shape[0], pair->b.shape[0]);
      if (!pair->gains.empty()) add(2, pair->b.shape[0]);
    }
  }
  if (const LoraPair* pair = adapter.embedding()) {
    add(pair->a.shape[1], pair->a.shape[0]);
    add(pair->b.shape[1], pair->b.shape[0]);
    if (!pair->gains.empty()) add(2, pair->b.shape[0]);
  }
  if (const LoraPair* pair = adapter.lm_head()) {
    add(pair->a.shape[0], pair->a.shape[1]);
    for (const int64_t width : BlockWidths(pair->b.shape[0], dtype, page_bytes)) {
      add(pair->b.shape[1], width);
      if (!pair->gains.empty()) add(2, width);
    }
  }
  for (const TensorView* table : {adapter.embedding_table(), adapter.lm_head_table()}) {
    if (table != nullptr) add(table->shape[0], table->shape[1]);
  }
  return lengths;
}

// Row after row, a new page where one does not fit.
int64_t ExpectedPages(const std::vector<int64_t>& rows, int64_t page_bytes) {
  int64_t pages = 1;
  int64_t offset = 0;
  for (const int64_t row : rows) {
    if (offset + row > page_bytes) {
      ++pages;
      offset = 0;
    }
    offset += row;
  }
  return pages;
}

// Pages of the pool in no order, as after long use.
std::vector<PageRef> ScatteredPages(PagePool& pool, int64_t count, std::mt19937_64& random) {
  std::vector<PageRef> pages;
  CHECK(pool.Allocate(pool.free(), PageUse::kAdapter, pages));
  std::shuffle(pages.begin(), pages.end(), random);
  pages.resize(static_cast<size_t>(count));
  return pages;
}

// A stretch of a page that holds one row.
struct Extent {
  const std::byte* begin;
  const std::byte* end;
};

// Checks one matrix of the pool against the file; `at(rank, i)` is the file's value.
template <typename At>
void CheckMatrix(const kernels::LoraMatrix& matrix, int32_t rank, int64_t width, DType dtype,
                 const At& at, std::vector<Extent>& extents) {
  EXPECT_EQ(matrix.row_stride_bytes, width * static_cast<int64_t>(SizeOf(dtype)));
  int32_t next = 0;
  for (const kernels::MatrixRun& run : matrix.runs) {
    ASSERT_EQ(run.first_row, next) << "runs cover the rows in order";
    ASSERT_GT(run.num_rows, 0);
    for (int32_t row = 0; row < run.num_rows; ++row, ++next) {
      const std::byte* data = run.data + row * matrix.row_stride_bytes;
      extents.push_back({data, data + matrix.row_stride_bytes});
      std::vector<float> values(static_cast<size_t>(width));
      CopyAsFloat(TensorView{data, dtype, {width}}, 0, width, values.data());
      for (int64_t i = 0; i < width; ++i) {
        const float exact = at(next, i);
        const float expected = dtype == DType::kF32 ? exact : ToFloat(ToBF16(exact));
        ASSERT_EQ(values[static_cast<size_t>(i)], expected) << "row " << next << ", " << i;
      }
    }
  }
  EXPECT_EQ(next, rank);
}

float ValueAt(const TensorView& tensor, int64_t row, int64_t col) {
  float value;
  CopyAsFloat(tensor, row * tensor.shape[1] + col, 1, &value);
  return value;
}

// The gains of the columns from `first` on; none without DoRA.
void CheckGains(const kernels::LoraMatrix& gain, const std::vector<float>& gains, int64_t first,
                int64_t width, DType dtype, std::vector<Extent>& extents) {
  EXPECT_EQ(gain.runs.empty(), gains.empty());
  if (gains.empty()) return;
  CheckMatrix(
      gain, 2, width, dtype,
      [&](int64_t r, int64_t i) {
        const float exact = gains[static_cast<size_t>(first + i)];
        if (r == 0) return exact;
        return dtype == DType::kF32 ? 0 : exact - ToFloat(ToBF16(exact));
      },
      extents);
}

// B and the gains of the columns from `first` on.
void CheckWeights(const kernels::LoraWeights& weights, const LoraPair& pair,
                  const LoraModule& module, int64_t first, int64_t width, DType dtype,
                  std::vector<Extent>& extents) {
  EXPECT_EQ(weights.rank, module.rank);
  EXPECT_EQ(weights.scale, static_cast<float>(module.scale));
  CheckMatrix(
      weights.b, weights.rank, width, dtype,
      [&](int64_t r, int64_t i) {
        return ValueAt(pair.b, first + i, pair.b_first_col + r * pair.b_col_step);
      },
      extents);
  CheckGains(weights.gain, pair.gains, first, width, dtype, extents);
}

void CheckRows(const kernels::LoraMatrix& matrix, const TensorView& tensor, DType dtype,
               std::vector<Extent>& extents) {
  CheckMatrix(
      matrix, static_cast<int32_t>(tensor.shape[0]), tensor.shape[1], dtype,
      [&](int64_t r, int64_t i) { return ValueAt(tensor, r, i); }, extents);
}

void CheckColumns(const kernels::LoraMatrix& matrix, const TensorView& tensor, DType dtype,
                  std::vector<Extent>& extents) {
  CheckMatrix(
      matrix, static_cast<int32_t>(tensor.shape[1]), tensor.shape[0], dtype,
      [&](int64_t r, int64_t i) { return ValueAt(tensor, i, r); }, extents);
}

void CheckOuter(const Adapter& adapter, const OuterWeights& outer, DType dtype,
                std::vector<Extent>& extents) {
  const LoraPair* embedding = adapter.embedding();
  EXPECT_EQ(outer.embedding_rank, adapter.spec().embedding.rank);
  if (embedding != nullptr) {
    EXPECT_EQ(outer.embedding_scale, static_cast<float>(adapter.spec().embedding.scale));
    CheckColumns(outer.embedding_a, embedding->a, dtype, extents);
    CheckColumns(outer.embedding_b, embedding->b, dtype, extents);
    CheckGains(outer.embedding_gain, embedding->gains, 0, embedding->b.shape[0], dtype, extents);
  }
  const LoraPair* head = adapter.lm_head();
  EXPECT_EQ(outer.lm_head.empty(), head == nullptr);
  int64_t next = 0;
  for (const OuterWeights::Block& block : outer.lm_head) {
    if (next == 0) CheckRows(block.weights.a, head->a, dtype, extents);
    EXPECT_EQ(block.first_col, next);
    next += block.width;
    CheckWeights(block.weights, *head, adapter.spec().lm_head, block.first_col, block.width, dtype,
                 extents);
  }
  if (head != nullptr) {
    EXPECT_EQ(next, head->b.shape[0]);
  }
  EXPECT_EQ(outer.embedding_table.runs.empty(), adapter.embedding_table() == nullptr);
  if (const TensorView* table = adapter.embedding_table()) {
    CheckRows(outer.embedding_table, *table, dtype, extents);
  }
  EXPECT_EQ(outer.lm_head_table.runs.empty(), adapter.lm_head_table() == nullptr);
  if (const TensorView* table = adapter.lm_head_table()) {
    CheckRows(outer.lm_head_table, *table, dtype, extents);
  }
}

std::vector<Extent> CheckAllMatrices(const Golden& golden, const ResidentAdapter& resident,
                                     DType dtype) {
  const Adapter& adapter = golden.adapter;
  std::vector<Extent> extents;
  for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
    for (int64_t i = 0; i < golden.base.num_sites(); ++i) {
      const Site site = Site::At(i);
      const kernels::LoraWeights& weights = resident.Sites(layer, site, 1).front();
      const LoraPair* pair = adapter.Find(layer, site);
      if (pair == nullptr) {
        EXPECT_EQ(weights.rank, 0);
        continue;
      }
      if (const auto before = Before(golden, layer, site)) {
        const auto& a = resident.Sites(layer, *before, 1).front().a;
        EXPECT_EQ(weights.a.runs.data(), a.runs.data()) << "one A for the module";
        EXPECT_EQ(weights.a.row_stride_bytes, a.row_stride_bytes);
      } else {
        CheckRows(weights.a, pair->a, dtype, extents);
      }
      CheckWeights(weights, *pair, adapter.spec().At(layer, site), 0, pair->b.shape[0], dtype,
                   extents);
    }
  }
  CheckOuter(adapter, resident.outer(), dtype, extents);
  return extents;
}

void CheckExtents(std::vector<Extent> extents, const Arena& arena,
                  const std::vector<PageId>& pages) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < extents.size(); ++i) {
    if (i > 0) {
      ASSERT_LE(extents[i - 1].end, extents[i].begin) << "rows overlap";
    }
    const bool on_a_page = std::any_of(pages.begin(), pages.end(), [&](PageId id) {
      return arena.Address(id) <= extents[i].begin &&
             extents[i].end <= arena.Address(id) + arena.page_bytes();
    });
    ASSERT_TRUE(on_a_page) << "a row lies outside the adapter's pages, or across two";
  }
}

void CheckPlacement(const Golden& golden, DType dtype, int64_t page_bytes, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << golden.name << " as " << dtype << " in pages of " << page_bytes
                                  << ", seed " << seed);
  const std::vector<int64_t> rows = RowLengths(golden, dtype, page_bytes);
  const int64_t num_pages = PagesForAdapter(golden.adapter, dtype, page_bytes);
  ASSERT_EQ(num_pages, ExpectedPages(rows, page_bytes));
  const int64_t exact_bytes = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  EXPECT_LT(num_pages * page_bytes - exact_bytes,
            page_bytes + (num_pages - 1) * LongestAdapterRowBytes(golden.base, dtype));

  std::mt19937_64 random(seed);
  PagePool pool(static_cast<int32_t>(num_pages + 5));
  const HostArena arena(static_cast<int32_t>(num_pages + 5), page_bytes);
  for (int32_t id = 0; id < pool.total(); ++id) arena.Poison(PageId(id));
  std::vector<PageRef> pages = ScatteredPages(pool, num_pages, random);
  std::vector<PageId> ids;
  for (const PageRef& page : pages) ids.push_back(page.id());
  {
    ResidentAdapter made(golden.adapter, dtype, arena, std::move(pages));
    const ResidentAdapter resident = std::move(made);
    resident.Copy(golden.adapter, arena);
    EXPECT_EQ(pool.used(PageUse::kAdapter), num_pages);
    CheckExtents(CheckAllMatrices(golden, resident, dtype), arena, ids);
  }
  EXPECT_EQ(pool.free(), pool.total()) << "the pages come back with the adapter";
}

TEST(ResidentAdapter, HoldsTheFilesValuesOnItsOwnPages) {
  uint64_t seed = 0;
  for (const Golden& golden : Goldens()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const int64_t longest = LongestAdapterRowBytes(golden.base, dtype);
      // The smallest page; one that no row divides; a power of two; one for everything.
      for (const int64_t page_bytes :
           {longest, longest * 5 / 2 / 4 * 4 + 4, int64_t{4096}, int64_t{1} << 20}) {
        CheckPlacement(golden, dtype, page_bytes, ++seed);
      }
    }
  }
}

TEST(ResidentAdapter, AnAdapterThatFillsItsPagesWastesNothing) {
  for (const Golden& golden : Goldens()) {
    // No block of lm_head's columns is narrower than its vocabulary here.
    const std::vector<int64_t> rows = RowLengths(golden, DType::kF32, 1 << 20);
    const int64_t bytes = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    EXPECT_EQ(PagesForAdapter(golden.adapter, DType::kF32, bytes), 1) << golden.name;
    EXPECT_EQ(PagesForAdapter(golden.adapter, DType::kF32, bytes - 1), 2) << golden.name;
  }
}

TEST(ResidentAdapter, TheLongestRowIsThatOfAnyProjection) {
  ModelSpec spec;
  spec.num_layers = 1;
  spec.hidden_size = 64;
  spec.intermediate_size = 100;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 16;
  EXPECT_EQ(LongestAdapterRowBytes(spec, DType::kF32), 400);
  EXPECT_EQ(LongestAdapterRowBytes(spec, DType::kBF16), 200);
  spec.head_dim = 32;  // q is wider than the MLP
  EXPECT_EQ(LongestAdapterRowBytes(spec, DType::kF32), 512);
}

}  // namespace
}  // namespace aril
