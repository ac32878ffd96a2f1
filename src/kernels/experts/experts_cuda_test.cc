// A mixture's routing on CUDA, in the emulator and on a GPU, against the host's.

#include "kernels/experts/experts_cuda.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"
#include "kernels/experts/experts.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 23;

struct Chosen {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

// Of which the first `num_rows` of `rows` are there.
Chosen Choose(CudaDevice& device, const std::vector<float>& logits, int32_t num_rows, int32_t rows,
              const Routing& routing) {
  const auto per_row = static_cast<int32_t>(routing.experts_per_row);
  const auto chosen_bytes = static_cast<size_t>(rows * per_row) * sizeof(int32_t);
  const DeviceBuffer device_logits = Upload(device, logits);
  const DeviceBuffer device_rows = Upload(device, std::vector<int32_t>{num_rows});
  const DeviceBuffer chosen = Allocate(device, chosen_bytes);
  const DeviceBuffer weights = Allocate(device, chosen_bytes);
  Require(
      device.Check(device.kernels().choose_experts(
                       device.context(), {.logits = device_logits.as<float>(),
                                          .num_rows = device_rows.as<int32_t>(),
                                          .rows = rows,
                                          .experts = static_cast<int32_t>(logits.size()) / num_rows,
                                          .per_row = per_row,
                                          .normalized = routing.normalized,
                                          .chosen = chosen.as<int32_t>(),
                                          .weights = weights.as<float>()}),
                   "choosing"));
  return {Download<int32_t>(device, chosen), Download<float>(device, weights)};
}

struct Placed {
  std::vector<int32_t> first_places, place_rows, places;
};

Placed Place(CudaDevice& device, const std::vector<int32_t>& chosen, int32_t per_row,
             int32_t experts) {
  const DeviceBuffer device_chosen = Upload(device, chosen);
  const auto first_bytes = static_cast<size_t>(experts + 1) * sizeof(int32_t);
  const DeviceBuffer first_places = Allocate(device, first_bytes);
  const DeviceBuffer place_rows = Allocate(device, std::span(chosen).size_bytes());
  const DeviceBuffer places = Allocate(device, std::span(chosen).size_bytes());
  Require(device.Check(device.kernels().place_rows(
                           device.context(), {.chosen = device_chosen.as<int32_t>(),
                                              .rows = static_cast<int32_t>(chosen.size()) / per_row,
                                              .per_row = per_row,
                                              .experts = experts,
                                              .first_places = first_places.as<int32_t>(),
                                              .place_rows = place_rows.as<int32_t>(),
                                              .places = places.as<int32_t>()}),
                       "placing"));
  return {Download<int32_t>(device, first_places), Download<int32_t>(device, place_rows),
          Download<int32_t>(device, places)};
}

class CudaExperts : public CudaTest {};

// As many experts as fill a part of a warp, a warp and a row of several; and all of them.
TEST_P(CudaExperts, ChoosesAsTheHostDoes) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal(0, 3);
  constexpr int32_t kRows = 6;
  for (const auto& [experts, per_row] : {std::pair{1, 1}, {7, 3}, {32, 32}, {130, 8}, {1024, 9}}) {
    std::vector<float> logits(static_cast<size_t>(kRows * experts));
    for (float& logit : logits) logit = normal(random);
    for (const bool normalized : {false, true}) {
      const Routing routing{per_row, normalized};
      for (const auto& device : devices()) {
        const Chosen chosen = Choose(*device, logits, kRows, kRows, routing);
        for (int32_t row = 0; row < kRows; ++row) {
          const std::span<const float> of_row(logits.data() + std::ptrdiff_t{row} * experts,
                                              static_cast<size_t>(experts));
          std::vector<int32_t> best(static_cast<size_t>(per_row));
          std::vector<float> unused(best.size());
          ChooseExperts(of_row, routing, best.data(), unused.data());
          std::vector<double> expected(best.size());
          ExpertWeightsRef(of_row, routing, best, expected.data());
          // A difference of at most 20 or so, whose rounding exp makes as large as that; expf,
          // within 2 units in the last place (CUDA C Programming Guide), twice; a sum of `experts`
          // at most, a quotient.
          const double tolerance = (experts + 22 + 2 * 4 + 2) * kFloatEps;
          for (size_t i = 0; i < best.size(); ++i) {
            const size_t at = static_cast<size_t>(row * per_row) + i;
            ASSERT_EQ(chosen.experts[at], best[i])
                << experts << " row " << row << " seed " << kSeed;
            ASSERT_NEAR(chosen.weights[at], expected[i], tolerance * expected[i])
                << experts << " row " << row << " seed " << kSeed;
          }
        }
      }
    }
  }
}

TEST_P(CudaExperts, OfEqualOnesTheFirstAreTaken) {
  std::vector<float> logits(40, 1.0F);
  logits[35] = 2.0F;
  for (const auto& device : devices()) {
    EXPECT_EQ(Choose(*device, logits, 1, 1, {3, true}).experts, (std::vector<int32_t>{0, 1, 35}));
  }
}

TEST_P(CudaExperts, RowsThatAreNotThereGoWhereTheFirstGoes) {
  // Logits of rows that are not there are not read: there are none.
  const std::vector<float> logits = {1, 5, 2, 4, /* */ 9, 0, 8, 0};
  for (const auto& device : devices()) {
    const Chosen chosen = Choose(*device, logits, 2, 4, {2, true});
    EXPECT_EQ(chosen.experts, (std::vector<int32_t>{1, 3, 0, 2, 1, 3, 1, 3}));
    EXPECT_EQ(chosen.weights[4], chosen.weights[0]);
    EXPECT_EQ(chosen.weights[7], chosen.weights[1]);
  }
}

TEST_P(CudaExperts, ARowOfNaNHasDifferentExperts) {
  const std::vector<float> logits = {NAN, NAN, 3, NAN, INFINITY, -INFINITY, NAN, NAN};
  for (const auto& device : devices()) {
    EXPECT_EQ(Choose(*device, logits, 1, 1, {5, true}).experts,
              (std::vector<int32_t>{0, 1, 2, 4, 5}));
  }
}

// More rows than threads; an expert that has none, and one that has all.
TEST_P(CudaExperts, PlacesAreInTheOrderOfExpertsAndThenOfRows) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kExperts = 9, kPerRow = 3;
  for (const int32_t rows : {1, 5, 600}) {
    std::vector<int32_t> chosen;
    for (int32_t row = 0; row < rows; ++row) {
      std::vector<int32_t> experts = {0, 1, 2, 3, 5, 6, 7, 8};  // not 4
      std::erase(experts, 6);
      std::ranges::shuffle(experts, random);
      experts.resize(kPerRow - 1);
      experts.push_back(6);
      std::ranges::sort(experts);
      chosen.insert(chosen.end(), experts.begin(), experts.end());
    }
    std::vector<int32_t> first_places, place_rows, places(chosen.size());
    for (int32_t expert = 0; expert <= kExperts; ++expert) {
      first_places.push_back(static_cast<int32_t>(place_rows.size()));
      for (size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i] != expert) continue;
        places[i] = static_cast<int32_t>(place_rows.size());
        place_rows.push_back(static_cast<int32_t>(i) / kPerRow);
      }
    }
    for (const auto& device : devices()) {
      const Placed placed = Place(*device, chosen, kPerRow, kExperts);
      EXPECT_EQ(placed.first_places, first_places) << rows << " rows, seed " << kSeed;
      EXPECT_EQ(placed.place_rows, place_rows) << rows << " rows, seed " << kSeed;
      EXPECT_EQ(placed.places, places) << rows << " rows, seed " << kSeed;
    }
  }
}

TEST_P(CudaExperts, SumsAreWeightedAndInOrder) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal(0, 1);
  constexpr int32_t kRows = 3, kPerRow = 4;
  for (const int32_t size : {5, 1100}) {
    std::vector<float> y(static_cast<size_t>(kRows * kPerRow * size));
    for (float& value : y) value = normal(random);
    std::vector<float> weights(kRows * kPerRow);
    for (float& weight : weights) weight = normal(random);
    std::vector<int32_t> places(kRows * kPerRow);
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int32_t>(i);
    std::ranges::shuffle(places, random);
    std::vector<float> expected(static_cast<size_t>(kRows * size));
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t row = i / static_cast<size_t>(size), col = i % static_cast<size_t>(size);
      for (size_t k = row * kPerRow; k < (row + 1) * kPerRow; ++k) {
        const size_t from = static_cast<size_t>(places[k] * size) + col;
        expected[i] = std::fma(weights[k], y[from], expected[i]);
      }
    }
    for (const auto& device : devices()) {
      const DeviceBuffer device_y = Upload(*device, y), device_weights = Upload(*device, weights);
      const DeviceBuffer device_places = Upload(*device, places);
      const DeviceBuffer out = Allocate(*device, std::span(expected).size_bytes());
      Require(device->Check(
          device->kernels().add_experts(device->context(), {.y = device_y.as<float>(),
                                                            .places = device_places.as<int32_t>(),
                                                            .weights = device_weights.as<float>(),
                                                            .rows = kRows,
                                                            .per_row = kPerRow,
                                                            .size = size,
                                                            .out = out.as<float>()}),
          "sums"));
      EXPECT_EQ(Download<float>(*device, out), expected) << size << ", seed " << kSeed;
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaExperts);

}  // namespace
}  // namespace aril::kernels
