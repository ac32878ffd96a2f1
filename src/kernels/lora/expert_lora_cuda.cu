// The operator's items (lora_cuda.cu), for work that the device finds out. First the tiles; then a
// few blocks for each multiprocessor take pieces of work in turn: of a shrink one for each tile,
// adapter, target and sixteen ranks, of an expand one for each tile, target and 256 columns. There
// are as many as a tile with the most adapters and ranks has: those that another has not are
// skipped.

#include "kernels/lora/expert_lora_cuda.h"

#include "kernels/cuda/groups.h"
#include "kernels/lora/expand_tile_cuda.h"
#include "kernels/lora/shrink_tile_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

// As of lora_cuda.cu. A shrink, which finds its rows of x in two ways, spills a few words for that.
constexpr int kBlocksPerMultiprocessor = 4;
constexpr int kTileRows = kLoraExpandRows;
static_assert(kTileRows <= kLoraShrinkRows);
constexpr int kExpandCols = kWarps * kTileCols;  // of a piece of work

ARIL_DEVICE const int32_t* RunsOfRows(const ExpertLoraTables* tables) {
  return reinterpret_cast<const int32_t*>(tables + 1);
}
ARIL_DEVICE const ExpertLoraRun* RunsOf(const ExpertLoraTables* tables) {
  return reinterpret_cast<const ExpertLoraRun*>(reinterpret_cast<const std::byte*>(tables) +
                                                tables->runs_offset);
}
ARIL_DEVICE const ExpertLoraEntry* EntriesOf(const ExpertLoraTables* tables) {
  return reinterpret_cast<const ExpertLoraEntry*>(reinterpret_cast<const std::byte*>(tables) +
                                                  tables->entries_offset);
}

// --- Tiles: a block for each expert ---

constexpr int kTilesThreads = 256;

// Of places [first, end), whose rows ascend, the first whose row is not before `row`.
ARIL_DEVICE int FirstPlaceOf(const ExpertPlaces& places, int first, int end, int row) {
  while (first < end) {
    const int middle = (first + end) / 2;
    if (places.place_rows[middle] + places.first_row < row) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return first;
}

// The tile that begins at a place of [first, end); of no places if none does.
ARIL_DEVICE ExpertLoraTile TileAt(const ExpertLoraTilesArgs& args, int place, int first, int end) {
  ExpertLoraTile tile;
  if (place >= end) return tile;
  const ExpertPlaces& places = args.places;
  tile.run = RunsOfRows(args.tables)[places.first_row + places.place_rows[place]];
  if (tile.run < 0) return tile;
  const ExpertLoraRun run = RunsOf(args.tables)[tile.run];
  const int begin = FirstPlaceOf(places, first, place, run.first_row);
  if ((place - begin) % kTileRows != 0) return tile;
  const int of_run = FirstPlaceOf(places, place, end, run.first_row + run.num_rows) - place;
  tile.first_place = place;
  tile.num_places = of_run < kTileRows ? of_run : kTileRows;
  return tile;
}

ARIL_KERNEL(kTilesThreads)
TilesKernel(ARIL_PARAMETER ExpertLoraTilesArgs args) {
  FollowPreviousKernel();
  int* const scratch = SharedMemory<int>();
  const int expert = BlockIdx();
  const int first = args.places.first_places[expert], end = args.places.first_places[expert + 1];
  int count = 0;
  for (int of_block = first; of_block < end; of_block += kTilesThreads) {
    const ExpertLoraTile tile = TileAt(args, of_block + ThreadIdx(), first, end);
    const int up_to = BlockPrefix<kTilesThreads>(tile.num_places > 0 ? 1 : 0, scratch);
    if (tile.num_places > 0) args.tiles[first + count + up_to - 1] = tile;
    count += scratch[kTilesThreads - 1];
    SyncThreads();
  }
  if (ThreadIdx() == 0) args.counts[expert] = count;
}

// --- What is done for the tiles ---

// A tile, and what of it a block is to do.
struct Piece {
  int expert;
  int of_tile;  // number
  ExpertLoraTile tile;
  ExpertLoraRun run;
};

// Calls `work` with each piece that is this block's: of every tile `per_tile`. The same piece of
// all tiles comes before the next one of any: tiles that have less than others leave few blocks
// without work. Shared memory: of CountPieces.
template <typename Work>
ARIL_DEVICE void ForPieces(const ExpertLoraCall& call, int per_tile, int* scratch,
                           const Work& work) {
  int* const ends = scratch + kThreads;
  CountPieces<kThreads>(
      call.places.experts, [&](int expert) { return call.counts[expert]; }, scratch, ends);
  const int num_tiles = ends[call.places.experts - 1];
  for (int i = BlockIdx(); i < num_tiles * per_tile; i += GridDim()) {
    const PieceOfGroup of_expert = FindPiece(ends, call.places.experts, i % num_tiles);
    const ExpertLoraTile tile =
        call.tiles[call.places.first_places[of_expert.group] + of_expert.piece];
    work(Piece{of_expert.group, i / num_tiles, tile, RunsOf(call.tables)[tile.run]});
  }
}
size_t ForPiecesBytes(int experts) { return sizeof(int) * static_cast<size_t>(kThreads + experts); }

// Of a target at an expert.
ARIL_DEVICE const LoraDeviceWeights* WeightsOf(const ExpertLoraCall& call,
                                               const ExpertLoraEntry& entry, int expert,
                                               int target) {
  const ExpertLoraLayer layer = entry.layers[call.layer];
  return layer.weights + expert * layer.per_expert + (call.first_site + target) * layer.per_site;
}

// Strides of V.
struct VLayout {
  int64_t of_place;  // stride
  int64_t of_entry;
  int32_t of_target;
  int32_t of_partial;

  ARIL_DEVICE explicit VLayout(const ExpertLoraCall& call)
      : of_place(0), of_entry(0), of_target(0), of_partial(call.tables->max_rank) {
    of_target = of_partial * call.partials;
    of_entry = static_cast<int64_t>(of_target) * call.num_targets;
    of_place = of_entry * call.tables->max_entries;
  }
  ARIL_DEVICE int64_t At(int place, int entry, int target) const {
    return place * of_place + entry * of_entry + target * of_target;
  }
};

// --- Shrink ---

// A piece: one entry, target, sixteen ranks and, if chunks are apart, one of them.
template <typename T>
ARIL_DEVICE void ShrinkPiece(const ExpertLoraShrinkArgs& args, const Piece& piece, int rank_tiles,
                             float* tiles) {
  using Element = typename T::Element;
  const ExpertLoraCall& call = args.call;
  const int partial = piece.of_tile % call.partials, after_partial = piece.of_tile / call.partials;
  const int first_rank = after_partial % rank_tiles * kLoraRankTile;
  const int after_rank = after_partial / rank_tiles;
  const int target = after_rank % call.num_targets, e = after_rank / call.num_targets;
  if (e >= piece.run.num_entries) return;  // the same for all threads of the block, as below
  const LoraDeviceWeights& weights =
      *WeightsOf(call, EntriesOf(call.tables)[piece.run.first_entry + e], piece.expert, target);
  TrapUnless(weights.rank <= call.tables->max_rank, "a rank of at most the plan's");
  if (first_rank >= weights.rank) return;
  const int num_chunks = (args.in + kLoraChunk - 1) / kLoraChunk;
  const auto* x = reinterpret_cast<const Element*>(args.x);
  const VLayout layout(call);
  float* const v =
      args.v + layout.At(piece.tile.first_place, e, target) + partial * layout.of_partial;
  const ShrinkPlace place = {piece.tile.num_places,
                             args.in,
                             IsAligned16(x) && args.x_stride * sizeof(Element) % 16 == 0,
                             first_rank,
                             partial,
                             call.partials == 1 ? num_chunks : 1,
                             v,
                             layout.of_place};
  if (args.x_of_rows) {
    const int32_t* rows = call.places.place_rows + piece.tile.first_place;
    ShrinkItem<T>(place, weights, ListedRows<Element>{x, args.x_stride, rows}, tiles);
  } else {
    x += piece.tile.first_place * args.x_stride;
    ShrinkItem<T>(place, weights, RowsBehindOneAnother<Element>{x, args.x_stride}, tiles);
  }
}

template <typename T>
ARIL_KERNEL(kThreads, kBlocksPerMultiprocessor)
ShrinkKernel(ARIL_PARAMETER ExpertLoraShrinkArgs args) {
  FollowPreviousKernel();
  const ExpertLoraCall& call = args.call;
  float* const tiles = SharedMemory<float>();
  auto* const scratch = reinterpret_cast<int*>(tiles + kShrinkTileBytes / sizeof(float));
  const int rank_tiles = (call.tables->max_rank + kLoraRankTile - 1) / kLoraRankTile;
  const int per_tile = call.tables->max_entries * call.num_targets * rank_tiles * call.partials;
  ForPieces(call, per_tile, scratch,
            [&](const Piece& piece) { ShrinkPiece<T>(args, piece, rank_tiles, tiles); });
}

// --- Expand ---

// A piece: some columns of a target, all entries.
template <typename T>
ARIL_DEVICE void ExpandPiece(const ExpertLoraExpandArgs& args, const Piece& piece, int col_tiles,
                             float* staged) {
  const ExpertLoraCall& call = args.call;
  const int target = piece.of_tile / col_tiles;
  const int first_col = piece.of_tile % col_tiles * kExpandCols;
  const int num_cols = args.out - first_col;
  const LoraExpandItem item = {.num_entries = piece.run.num_entries,
                               .num_rows = piece.tile.num_places,
                               .first_col = first_col,
                               .num_cols = num_cols < kExpandCols ? num_cols : kExpandCols};
  const ExpandPlace place = {
      args.y + piece.tile.first_place * args.y_stride + static_cast<int64_t>(target) * args.out,
      args.y_stride, nullptr, args.v};
  const VLayout layout(call);
  ExpandItem<T>(
      place, item,
      [&](int e) {
        const ExpertLoraEntry entry = EntriesOf(call.tables)[piece.run.first_entry + e];
        const LoraDeviceWeights* weights = WeightsOf(call, entry, piece.expert, target);
        TrapUnless(weights->rank <= call.tables->max_rank, "a rank of at most the plan's");
        return LoraExpandEntry{.weights = weights,
                               .v_offset = layout.At(piece.tile.first_place, e, target),
                               .v_partial_stride = layout.of_partial,
                               .v_stride = static_cast<int32_t>(layout.of_place),
                               .num_partials = call.partials,
                               .weight = entry.weight};
      },
      staged);
}

template <typename T>
ARIL_KERNEL(kThreads, kBlocksPerMultiprocessor)
ExpandKernel(ARIL_PARAMETER ExpertLoraExpandArgs args) {
  FollowPreviousKernel();
  const ExpertLoraCall& call = args.call;
  TrapUnless(call.tables->max_rank <= args.max_rank, "ranks of at most the launch's max_rank");
  auto* const scratch = SharedMemory<int>();
  auto* const staged = reinterpret_cast<float*>(scratch + kThreads + call.places.experts);
  const int col_tiles = (args.out + kExpandCols - 1) / kExpandCols;
  ForPieces(call, call.num_targets * col_tiles, scratch,
            [&](const Piece& piece) { ExpandPiece<T>(args, piece, col_tiles, staged); });
}

}  // namespace

int ExpertLoraTiles(const CudaContext& context, const ExpertLoraTilesArgs& args) {
  return LaunchKernel(context, {args.places.experts, kTilesThreads, kTilesThreads * sizeof(int)},
                      TilesKernel, args);
}

int ExpertLoraShrink(const CudaContext& context, DType dtype, const ExpertLoraShrinkArgs& args) {
  const LaunchShape shape = {context.num_multiprocessors * kBlocksPerMultiprocessor, kThreads,
                             kShrinkTileBytes + ForPiecesBytes(args.call.places.experts)};
  return LaunchFor(dtype, context, shape, ShrinkKernel<F32>, ShrinkKernel<Bf16>, ShrinkKernel<F16>,
                   args);
}

int ExpertLoraExpand(const CudaContext& context, DType dtype, const ExpertLoraExpandArgs& args) {
  const LaunchShape shape = {
      context.num_multiprocessors * kBlocksPerMultiprocessor, kThreads,
      ForPiecesBytes(args.call.places.experts) + ExpandItemBytes(args.max_rank)};
  return LaunchFor(dtype, context, shape, ExpandKernel<F32>, ExpandKernel<Bf16>, ExpandKernel<F16>,
                   args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
