// The LoRA operator at experts on CUDA, in the emulator and on a GPU. What it is to compute, the
// operator computes too, for the places of each expert and adapter as segments: bit by bit.

#include "kernels/lora/expert_lora_cuda.h"

#include <algorithm>
#include <numeric>

#include "gtest/gtest.h"
#include "kernels/lora/expert_lora_plan.h"
#include "kernels/lora/lora_cuda_test_support.h"

namespace aril::kernels {
namespace {

constexpr int32_t kExperts = 5;

// An adapter's weights at all experts of the second layer, on a device; of the first it changes
// nothing. Every run of a matrix is an allocation of its own.
class ExpertsAdapter {
 public:
  // Projections [outs, in], [outs, in] and [in, outs]. `ranks`: in turns, of all.
  ExpertsAdapter(CudaDevice& device, TestDType dtype, int64_t in, int64_t out,
                 const std::vector<int32_t>& ranks, bool with_gain, std::mt19937_64& random)
      : device_(device), dtype_(dtype) {
    size_t next = 0;
    for (int32_t i = 0; i < kExperts * kExpertLoraSites; ++i) {
      const bool is_down = i % kExpertLoraSites == 2;
      const int64_t from = is_down ? out : in, to = is_down ? in : out;
      const int32_t rank = ranks[next++ % ranks.size()];
      if (rank == 0) {
        weights_.emplace_back();
        continue;
      }
      TestAdapter& adapter = adapters_.emplace_back(dtype.host, rank, from, to, random);
      for (const TestMatrix* m : {&adapter.a(), &adapter.b(), &adapter.gain()}) {
        RoundTo(dtype.device, *m);
      }
      const LoraWeights w = with_gain ? adapter.WithGain(random) : adapter.weights();
      weights_.push_back({.a = Copy(w.a, from),
                          .b = Copy(w.b, to),
                          .gain = Copy(w.gain, to),
                          .rank = rank,
                          .scale = w.scale});
    }
    max_rank_ = *std::ranges::max_element(ranks);
    table_ = Upload(device, weights_);
    none_ = Upload(device, std::vector<LoraDeviceWeights>(1));
    layers_ = Upload(device, std::vector<ExpertLoraLayer>{{none_.as<LoraDeviceWeights>(), 0, 0},
                                                          {table(), kExpertLoraSites, 1}});
  }

  const LoraDeviceWeights* table() const { return table_.as<LoraDeviceWeights>(); }
  const ExpertLoraLayer* layers() const { return layers_.as<ExpertLoraLayer>(); }
  int32_t max_rank() const { return max_rank_; }
  int32_t rank(int32_t index) const { return weights_[static_cast<size_t>(index)].rank; }

 private:
  LoraDeviceMatrix Copy(const LoraMatrix& matrix, int64_t width) {
    if (matrix.runs.empty()) return {};
    const int64_t stride = width * static_cast<int64_t>(SizeOf(dtype_.device));
    std::vector<MatrixRun>& runs = runs_.emplace_back();
    for (const MatrixRun& run : matrix.runs) {
      std::vector<std::byte> bytes;
      for (int32_t row = 0; row < run.num_rows; ++row) {
        AppendRow(run.data + row * matrix.row_stride_bytes, width, dtype_, bytes);
      }
      buffers_.push_back(Upload(device_, bytes));
      runs.push_back({buffers_.back().data(), run.first_row, run.num_rows});
    }
    buffers_.push_back(Upload(device_, runs));
    return DescribeLoraMatrix({runs, stride}, buffers_.back().as<MatrixRun>());
  }

  CudaDevice& device_;
  TestDType dtype_;
  std::deque<TestAdapter> adapters_;
  std::deque<std::vector<MatrixRun>> runs_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<LoraDeviceWeights> weights_;
  DeviceBuffer table_, none_, layers_;
  int32_t max_rank_ = 0;
};

// An adapter's rows in a batch.
struct Use {
  int32_t first_row;
  int32_t num_rows;
  float weight;
  const ExpertsAdapter* adapter;
};

// Rows and their experts, from a step's row `first_row` on.
struct Routed {
  int32_t first_row = 0;
  int32_t rows = 0;
  std::vector<int32_t> first_places, place_rows;

  Routed(int32_t first, int32_t count, int32_t per_row, std::mt19937_64& random)
      : first_row(first), rows(count), first_places(kExperts + 1) {
    std::vector<std::vector<int32_t>> of_expert(kExperts);
    for (int32_t row = 0; row < rows; ++row) {
      std::vector<int32_t> experts(kExperts);
      std::iota(experts.begin(), experts.end(), 0);
      std::ranges::shuffle(experts, random);
      // Most rows go to the second one, so that a run has several tiles there.
      if (row % 8 != 0) std::swap(*std::ranges::find(experts, 1), experts[0]);
      for (int32_t i = 0; i < per_row; ++i) {
        of_expert[static_cast<size_t>(experts[static_cast<size_t>(i)])].push_back(row);
      }
    }
    for (size_t expert = 0; expert < of_expert.size(); ++expert) {
      place_rows.insert(place_rows.end(), of_expert[expert].begin(), of_expert[expert].end());
      first_places[expert + 1] = static_cast<int32_t>(place_rows.size());
    }
  }
  int32_t num_places() const { return static_cast<int32_t>(place_rows.size()); }
};

// One call: what x is, the first of an expert's sites, and how many.
struct Call {
  int32_t in, out, first_site, num_targets;
  bool x_of_rows;
};

class Operands {
 public:
  Operands(CudaDevice& device, TestDType dtype, const Call& call, const Routed& routed,
           std::mt19937_64& random)
      : device_(device), dtype_(dtype), call_(call), routed_(routed) {
    const int64_t x_rows = call.x_of_rows ? routed.rows : routed.num_places();
    const TestMatrix x(dtype.host, x_rows, call.in, 1.0, random, 0);
    RoundTo(dtype.device, x);
    const size_t row_bytes = static_cast<size_t>(call.in) * SizeOf(dtype.device);
    const std::vector<std::byte> bytes = ToDeviceDType(
        x.view().data, static_cast<size_t>(x_rows * call.in) * SizeOf(dtype.host), dtype);
    x_ = Upload(device, bytes);
    std::vector<std::byte> gathered;
    for (int32_t place = 0; place < routed.num_places(); ++place) {
      const auto row = static_cast<size_t>(
          call.x_of_rows ? routed.place_rows[static_cast<size_t>(place)] : place);
      const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(row * row_bytes);
      gathered.insert(gathered.end(), from, from + static_cast<std::ptrdiff_t>(row_bytes));
    }
    gathered_ = Upload(device, gathered);
    std::normal_distribution<float> normal(0, 1);
    y_.resize(static_cast<size_t>(routed.num_places() * cols()));
    for (float& value : y_) value = normal(random);
  }

  std::vector<float> ByOperator(const std::vector<Use>& uses) {
    std::vector<LoraPlanSegment> segments;
    std::deque<std::vector<int32_t>> ranks;
    for (int32_t expert = 0; expert < kExperts; ++expert) {
      const auto first = routed_.place_rows.begin() + FirstPlace(expert);
      const auto end = routed_.place_rows.begin() + FirstPlace(expert + 1);
      for (const Use& use : uses) {
        const auto row = use.first_row - routed_.first_row;
        const auto begin = std::lower_bound(first, end, row);
        const auto behind = std::lower_bound(first, end, row + use.num_rows);
        if (begin == behind) continue;
        const int32_t at = call_.first_site + expert * kExpertLoraSites;
        ranks.emplace_back();
        for (int32_t t = 0; t < call_.num_targets; ++t) {
          ranks.back().push_back(use.adapter->rank(at + t));
        }
        segments.push_back({static_cast<int32_t>(begin - routed_.place_rows.begin()),
                            static_cast<int32_t>(behind - begin), use.weight,
                            use.adapter->table() + at, ranks.back()});
      }
    }
    const std::vector<int64_t> outs(static_cast<size_t>(call_.num_targets), call_.out);
    const LoraPlan plan({call_.in, outs, 1}, segments);
    std::vector<std::byte> bytes(static_cast<size_t>(plan.table_bytes()));
    plan.Write(bytes.data());
    const DeviceBuffer tables = Upload(device_, bytes), y = Upload(device_, y_);
    const DeviceBuffer v = Allocate(device_, static_cast<size_t>(plan.v_floats() + 1) * 4);
    Require(device_.Check(device_.kernels().lora_shrink(device_.context(), dtype_.device,
                                                        {.tables = tables.as<LoraTables>(),
                                                         .x = gathered_.data(),
                                                         .x_stride = call_.in,
                                                         .in = call_.in,
                                                         .v = v.as<float>()}),
                          "shrink"));
    LoraExpandArgs expand{.tables = tables.as<LoraTables>(),
                          .max_rank = plan.max_rank(),
                          .v = v.as<float>(),
                          .y = y.as<float>(),
                          .y_stride = cols()};
    for (int32_t t = 0; t < call_.num_targets; ++t) {
      expand.targets[t].first_col = static_cast<int64_t>(t) * call_.out;
    }
    Require(device_.Check(device_.kernels().lora_expand(device_.context(), dtype_.device, expand),
                          "expand"));
    return Download<float>(device_, y);
  }

  // In a step of `step_rows`.
  std::vector<float> AtExperts(const std::vector<Use>& uses, int32_t step_rows, int32_t layer) {
    std::vector<ExpertLoraSegment> segments;
    for (const Use& use : uses) {
      segments.push_back({use.first_row, use.num_rows, use.weight, use.adapter->layers(),
                          use.adapter->max_rank()});
    }
    const ExpertLoraPlan plan(segments);
    std::vector<std::byte> bytes(plan.table_bytes(step_rows));
    plan.Write(bytes.data(), step_rows);
    const DeviceBuffer tables = Upload(device_, bytes), y = Upload(device_, y_);
    const DeviceBuffer first_places = Upload(device_, routed_.first_places);
    const DeviceBuffer place_rows = Upload(device_, routed_.place_rows);
    const auto places = static_cast<size_t>(routed_.num_places());
    const DeviceBuffer tiles = Allocate(device_, places * sizeof(ExpertLoraTile));
    const DeviceBuffer counts = Allocate(device_, kExperts * sizeof(int32_t));
    const int32_t partials = ExpertLoraPartials(call_.in, step_rows);
    const DeviceBuffer v = Allocate(device_, static_cast<size_t>(ExpertLoraVFloats(
                                                 routed_.num_places(), plan.max_entries(),
                                                 call_.num_targets, partials, plan.max_rank())) *
                                                 sizeof(float));
    const auto* const device_tables = tables.as<ExpertLoraTables>();
    const ExpertPlaces at{first_places.as<int32_t>(), place_rows.as<int32_t>(), routed_.first_row,
                          kExperts};
    const CudaKernels& kernels = device_.kernels();
    Require(device_.Check(
        kernels.expert_lora_tiles(device_.context(), {device_tables, at, tiles.as<ExpertLoraTile>(),
                                                      counts.as<int32_t>()}),
        "tiles"));
    const ExpertLoraCall call = {.tables = device_tables,
                                 .places = at,
                                 .tiles = tiles.as<ExpertLoraTile>(),
                                 .counts = counts.as<int32_t>(),
                                 .layer = layer,
                                 .first_site = call_.first_site,
                                 .num_targets = call_.num_targets,
                                 .partials = partials};
    Require(device_.Check(kernels.expert_lora_shrink(device_.context(), dtype_.device,
                                                     {.call = call,
                                                      .x = x_.data(),
                                                      .x_stride = call_.in,
                                                      .x_of_rows = call_.x_of_rows,
                                                      .in = call_.in,
                                                      .v = v.as<float>()}),
                          "shrink"));
    Require(device_.Check(kernels.expert_lora_expand(device_.context(), dtype_.device,
                                                     {.call = call,
                                                      .max_rank = plan.max_rank() + 1,
                                                      .out = call_.out,
                                                      .v = v.as<float>(),
                                                      .y = y.as<float>(),
                                                      .y_stride = cols()}),
                          "expand"));
    return Download<float>(device_, y);
  }

  const std::vector<float>& y() const { return y_; }

 private:
  int64_t cols() const { return static_cast<int64_t>(call_.num_targets) * call_.out; }
  int32_t FirstPlace(int32_t expert) const {
    return routed_.first_places[static_cast<size_t>(expert)];
  }

  CudaDevice& device_;
  TestDType dtype_;
  Call call_;
  const Routed& routed_;
  DeviceBuffer x_, gathered_;
  std::vector<float> y_;
};

class CudaExpertLora : public CudaTest {};

// Runs of one row and of several tiles, rows without adapters and with two, ranks of several tiles,
// sites without weights, gains; x with several chunks, which are apart in short steps.
TEST_P(CudaExpertLora, IsTheOperatorForThePlacesOfEachExpert) {
  constexpr int32_t kFirstRow = 3, kRows = 57, kIn = 1064, kOut = 40;
  for (const TestDType dtype : kDTypes) {
    for (const int32_t step_rows : {100, 300}) {
      std::vector<float> expected_gate_up, expected_down;
      for (const auto& device : devices()) {
        std::mt19937_64 random(kSeed);
        const ExpertsAdapter first(*device, dtype, kIn, kOut, {4, 8, 0, 3}, false, random);
        const ExpertsAdapter second(*device, dtype, kIn, kOut, {18, 2}, true, random);
        const Routed routed(kFirstRow, kRows, 2, random);
        // Of the step's rows: the first are not among those that are routed here.
        const std::vector<Use> uses = {{0, 40, 1.0F, &first},
                                       {41, 1, 0.5F, &second},
                                       {45, 12, 2.0F, &second},
                                       {50, 10, -1.0F, &first}};
        for (const Call& call : {Call{kIn, kOut, 0, 2, true}, Call{kOut, kIn, 2, 1, false}}) {
          Operands operands(*device, dtype, call, routed, random);
          std::vector<float>& expected = call.x_of_rows ? expected_gate_up : expected_down;
          if (expected.empty()) {
            expected = operands.ByOperator(uses);
            EXPECT_NE(expected, operands.y());
          }
          EXPECT_EQ(operands.AtExperts(uses, step_rows, 1), expected)
              << dtype.device << ", a step of " << step_rows << ", seed " << kSeed;
          EXPECT_EQ(operands.AtExperts(uses, step_rows, 0), operands.y());
        }
      }
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaExpertLora);

TEST(CudaExpertLoraDeathTest, ARankBeyondTheTablesTraps) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  std::mt19937_64 random(kSeed);
  const TestDType dtype = kDTypes[0];
  const ExpertsAdapter adapter(*device, dtype, 8, 8, {9}, false, random);
  const Routed routed(0, 2, 1, random);
  const std::vector<ExpertLoraSegment> segments = {{0, 2, 1, adapter.layers(), 8}};
  const ExpertLoraPlan plan(segments);
  std::vector<std::byte> bytes(plan.table_bytes(2));
  plan.Write(bytes.data(), 2);
  const DeviceBuffer tables = Upload(*device, bytes);
  const auto* const device_tables = tables.as<ExpertLoraTables>();
  const DeviceBuffer first_places = Upload(*device, routed.first_places);
  const DeviceBuffer place_rows = Upload(*device, routed.place_rows);
  const DeviceBuffer tiles = Allocate(*device, 2 * sizeof(ExpertLoraTile));
  const DeviceBuffer counts = Allocate(*device, kExperts * sizeof(int32_t));
  const ExpertPlaces at{first_places.as<int32_t>(), place_rows.as<int32_t>(), 0, kExperts};
  const CudaKernels& kernels = device->kernels();
  Require(device->Check(
      kernels.expert_lora_tiles(
          device->context(), {device_tables, at, tiles.as<ExpertLoraTile>(), counts.as<int32_t>()}),
      "tiles"));
  const ExpertLoraCall call = {.tables = device_tables,
                               .places = at,
                               .tiles = tiles.as<ExpertLoraTile>(),
                               .counts = counts.as<int32_t>(),
                               .layer = 1,
                               .num_targets = 2,
                               .partials = 1};
  const auto shrink = [&] {
    (void)kernels.expert_lora_shrink(device->context(), dtype.device,
                                     {.call = call, .x_of_rows = true, .in = 8});
    (void)device->Synchronize();
  };
  EXPECT_DEATH(shrink(), "a rank of at most the plan's");
  const auto expand = [&](int32_t max_rank) {
    (void)kernels.expert_lora_expand(device->context(), dtype.device,
                                     {.call = call, .max_rank = max_rank, .out = 8});
    (void)device->Synchronize();
  };
  EXPECT_DEATH(expand(7), "ranks of at most the launch's max_rank");
  EXPECT_DEATH(expand(8), "a rank of at most the plan's");
}

}  // namespace
}  // namespace aril::kernels
