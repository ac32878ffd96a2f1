// Pins, idle adapters and their order.

#include "adapters/residency.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "base/check.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kModel = SourcePath("tests/goldens/llama-f32-sharded");

constexpr int32_t kNumAdapters = 8;

// Eight adapters of four sizes.
std::vector<AdapterRef> OpenAdapters() {
  const auto base = LoadModelSpec(kModel);
  CHECK(base.ok());
  const std::string names[] = {"all-r4", "all-r8-rslora-f16", "down-r1", "qv-r64-bf16"};
  std::vector<AdapterRef> adapters;
  for (size_t i = 0; i < kNumAdapters; ++i) {
    auto adapter =
        Adapter::OpenWithoutBase(kModel + "/adapters/" + names[i % 4], *base, kMaxLoraRank);
    CHECK(adapter.ok());
    adapters.push_back(
        {AdapterId(static_cast<int32_t>(i)), std::make_shared<const Adapter>(*std::move(adapter))});
  }
  return adapters;
}

// In a pool that holds them all.
class ResidencyTest : public ::testing::Test {
 protected:
  static constexpr int64_t kPageBytes = 1024;
  static constexpr int32_t kNumPages = 1000;

  const AdapterRef& Ref(int32_t id) const { return adapters_.at(static_cast<size_t>(id)); }
  AdapterPin Pin(int32_t id) { return residency_.Pin(Ref(id)); }
  // Takes so many pages that one idle adapter has to go, if there is any; gives them back.
  void Press() {
    std::vector<PageRef> pages;
    (void)pool_.Allocate(pool_.free() + 1, PageUse::kKv, pages);
  }
  std::vector<AdapterId> Resident() const {
    std::vector<AdapterId> ids;
    for (const AdapterRef& ref : adapters_) {
      if (residency_.IsResident(ref.id)) ids.push_back(ref.id);
    }
    return ids;
  }

  const std::vector<AdapterRef> adapters_ = OpenAdapters();
  ManualClock clock_;
  PagePool pool_{kNumPages};
  HostArena arena_{kNumPages, kPageBytes};
  Residency residency_{DType::kF32, pool_, arena_, clock_};
};

TEST_F(ResidencyTest, TheBaseModelTakesNothing) {
  const AdapterPin pin = residency_.Pin({});
  EXPECT_EQ(pin.adapter(), nullptr);
  EXPECT_TRUE(residency_.IsResident(kBaseModel));
  EXPECT_EQ(residency_.PagesFor({}), 0);
  EXPECT_EQ(pool_.free(), pool_.total());
  EXPECT_EQ(residency_.num_loads(), 0);
}

TEST_F(ResidencyTest, LoadsOnceAndKeepsWhatIsIdle) {
  constexpr int32_t kId = 3;
  {
    const AdapterPin first = Pin(kId);
    const AdapterPin second = Pin(kId);
    EXPECT_EQ(first.adapter(), second.adapter());
    EXPECT_EQ(first.adapter()->num_pages(), residency_.PagesFor(Ref(kId)));
    EXPECT_EQ(pool_.used(PageUse::kAdapter), residency_.PagesFor(Ref(kId)));
    EXPECT_EQ(pool_.available(), pool_.free());
  }
  EXPECT_EQ(pool_.available(), pool_.total());
  EXPECT_EQ(pool_.used(PageUse::kAdapter), residency_.PagesFor(Ref(kId)));
  const AdapterPin again = Pin(kId);
  EXPECT_EQ(residency_.num_loads(), 1);
}

// Of files that are others' by the time that they have been copied.
AdapterRef WithError(AdapterRef ref) {
  ref.check_files = std::make_shared<const CheckFiles>([] { return InvalidArgument("changed"); });
  return ref;
}

TEST_F(ResidencyTest, WhatHasChangedIsNeverReadyAndGoes) {
  {
    const AdapterPin pin = residency_.Pin(WithError(Ref(0)));
    const AdapterPin second = residency_.Pin(WithError(Ref(0)));
    EXPECT_THAT(residency_.TakeLoaded(), IsEmpty());
    EXPECT_FALSE(residency_.IsReady(AdapterId(0)));
    EXPECT_FALSE(residency_.IsInPool(AdapterId(0)));
    EXPECT_EQ(Message(residency_.ErrorOf(AdapterId(0))), "changed");
    EXPECT_EQ(residency_.num_loading(), 0);
  }
  EXPECT_FALSE(residency_.IsResident(AdapterId(0)));
  EXPECT_TRUE(residency_.ErrorOf(AdapterId(0)).ok());
  EXPECT_EQ(pool_.free(), pool_.total());
  const AdapterPin again = residency_.Pin(Ref(0));
  residency_.TakeLoaded();
  EXPECT_TRUE(residency_.IsReady(AdapterId(0))) << "the files are there again";
}

TEST_F(ResidencyTest, WhatHasChangedGoesAtOnceIfNobodyWaitsForIt) {
  residency_.Prefetch(WithError(Ref(0)));
  residency_.TakeLoaded();
  EXPECT_FALSE(residency_.IsResident(AdapterId(0)));
  EXPECT_EQ(pool_.free(), pool_.total());
}

TEST_F(ResidencyTest, TheLeastRecentlyUsedGoesFirst) {
  for (const int32_t id : {0, 1, 2}) Pin(id);
  Pin(0);
  const AdapterPin pinned = Pin(2);
  Press();
  EXPECT_THAT(Resident(), ElementsAre(AdapterId(0), AdapterId(2)));
  Press();
  EXPECT_THAT(Resident(), ElementsAre(AdapterId(2)));
  Press();
  EXPECT_THAT(Resident(), ElementsAre(AdapterId(2))) << "what is pinned stays";
}

TEST_F(ResidencyTest, WhoGoesGivesThePagesBack) {
  Pin(0);
  Pin(1);
  Press();
  EXPECT_FALSE(residency_.IsResident(AdapterId(0)));
  EXPECT_EQ(pool_.used(PageUse::kAdapter), residency_.PagesFor(Ref(1)));
  EXPECT_EQ(residency_.num_drops(), 1);
  Pin(0);
  EXPECT_EQ(residency_.num_loads(), 3) << "loaded again";
}

TEST_F(ResidencyTest, AnAdapterMayTakeThePlaceOfAnother) {
  Pin(0);
  std::vector<PageRef> rest;
  ASSERT_TRUE(pool_.Allocate(pool_.free(), PageUse::kKv, rest));
  rest.resize(rest.size() - static_cast<size_t>(residency_.PagesFor(Ref(4)) - 1));
  const AdapterPin pin = Pin(4);
  EXPECT_THAT(Resident(), ElementsAre(AdapterId(4)));
}

TEST_F(ResidencyTest, PinsMoveAndReleaseOnce) {
  AdapterPin a = Pin(0);
  const ResidentAdapter* address = a.adapter();
  AdapterPin b = std::move(a);
  EXPECT_EQ(a.adapter(), nullptr);  // NOLINT(bugprone-use-after-move): what is tested
  EXPECT_EQ(b.adapter(), address);
  AdapterPin& same = b;
  b = std::move(same);
  EXPECT_EQ(b.adapter(), address);
  b = Pin(1);
  const int64_t pinned = residency_.PagesFor(Ref(1));
  EXPECT_EQ(pool_.available(), pool_.total() - pinned) << "the pin of 0 was overwritten";
  b.Reset();
  b.Reset();
  EXPECT_EQ(pool_.available(), pool_.total());
}

TEST_F(ResidencyTest, AnAddressStaysWhileOthersComeAndGo) {
  const AdapterPin pin = Pin(5);
  const ResidentAdapter* address = pin.adapter();
  for (int round = 0; round < 3; ++round) {
    for (const int32_t id : {0, 1, 2, 3, 4, 6, 7}) Pin(id);
    for (int others = 0; others < 7; ++others) Press();
    EXPECT_THAT(Resident(), ElementsAre(AdapterId(5)));
    EXPECT_EQ(pin.adapter(), address);
  }
}

TEST_F(ResidencyTest, RandomUseAgreesWithAModel) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<std::pair<AdapterId, AdapterPin>> pins;
    std::deque<AdapterId> idle;  // as it should be
    std::map<AdapterId, int> num_pins;
    for (int32_t i = 0; i < kNumAdapters; ++i) Press();
    for (int step = 0; step < 500; ++step) {
      const uint64_t action = random() % 5;
      if (action < 2 && pins.size() < 6) {
        const AdapterId id(static_cast<int32_t>(random() % kNumAdapters));
        pins.emplace_back(id, Pin(id.value()));
        ++num_pins[id];
        std::erase(idle, id);
      } else if (action < 4 && !pins.empty()) {
        const size_t victim = random() % pins.size();
        const AdapterId id = pins[victim].first;
        std::swap(pins[victim], pins.back());
        pins.pop_back();
        if (--num_pins[id] == 0) idle.push_back(id);
      } else if (!idle.empty()) {
        Press();
        idle.pop_front();
      }
      int64_t pages = 0;
      int64_t idle_pages = 0;
      for (const AdapterId id : idle) idle_pages += residency_.PagesFor(Ref(id.value()));
      ASSERT_EQ(pool_.available() - pool_.free(), idle_pages);
      for (int32_t i = 0; i < kNumAdapters; ++i) {
        const AdapterId id(i);
        const bool resident =
            num_pins[id] > 0 || std::find(idle.begin(), idle.end(), id) != idle.end();
        ASSERT_EQ(residency_.IsResident(id), resident) << "adapter " << id;
        if (resident) pages += residency_.PagesFor(Ref(i));
      }
      ASSERT_EQ(pool_.used(PageUse::kAdapter), pages);
    }
  }
}

TEST_F(ResidencyTest, SaysWhatItsPagesDoNotHold) {
  EXPECT_EQ(residency_.unused_bytes(), 0);
  int64_t num_pages = 0;
  int64_t held_bytes = 0;
  for (const int32_t id : {0, 3}) {
    Pin(id);
    num_pages += residency_.PagesFor(Ref(id));
    const ModelSpec base = *LoadModelSpec(kModel);
    for (const auto& layer : Ref(id).adapter->spec().layers) {
      for (const Projection p : kAllProjections) {
        const LoraModule& module = layer[static_cast<size_t>(p)];
        if (module.rank == 0) continue;
        held_bytes += module.rank * (base.InFeatures(p) + base.OutFeatures(p)) *
                      static_cast<int64_t>(sizeof(float));
      }
    }
  }
  EXPECT_EQ(residency_.unused_bytes(), num_pages * kPageBytes - held_bytes);
  EXPECT_GT(residency_.unused_bytes(), 0);
  std::vector<PageRef> all;
  ASSERT_TRUE(pool_.Allocate(pool_.total(), PageUse::kKv, all));
  EXPECT_EQ(residency_.unused_bytes(), 0);
}

// Adapters 0 and 1, and one page less than adapter 2 needs beside them.
TEST_F(ResidencyTest, TheShareOfAdaptersIsKept) {
  const auto pages = [&](int32_t id) { return residency_.PagesFor(Ref(id)); };
  const int64_t max_pages = pages(0) + pages(1) + pages(2) - 1;
  Residency bounded(DType::kF32, pool_, arena_, clock_, Residency::AtOnce, max_pages);
  EXPECT_EQ(bounded.available_pages(), max_pages);
  { const AdapterPin first = bounded.Pin(Ref(0)); }
  AdapterPin second = bounded.Pin(Ref(1));
  EXPECT_EQ(bounded.available_pages(), max_pages - pages(1)) << "the first is idle";
  const AdapterPin third = bounded.Pin(Ref(2));
  EXPECT_FALSE(bounded.IsResident(AdapterId(0))) << "although the pool has room";
  EXPECT_TRUE(bounded.IsResident(AdapterId(1)));
  EXPECT_LE(pool_.used(PageUse::kAdapter), max_pages);
  EXPECT_EQ(bounded.num_drops(), 1);
  second.Reset();
  const AdapterPin again = bounded.Pin(Ref(0));
  EXPECT_FALSE(bounded.IsResident(AdapterId(1)));
  EXPECT_EQ(bounded.available_pages(), max_pages - pages(0) - pages(2));
}

// Loads that end when the test says so.
class SlowResidencyTest : public ResidencyTest {
 protected:
  // The oldest copy under way.
  void Copy() {
    ASSERT_FALSE(aside_.empty());
    aside_.front()();
    aside_.pop_front();
  }
  std::deque<std::function<void()>> aside_;
  Residency slow_{DType::kF32, pool_, arena_, clock_,
                  [this](auto copy) { aside_.push_back(std::move(copy)); }};
};

TEST_F(SlowResidencyTest, AnAdapterIsReadyWhenItsCopyHasBeenTaken) {
  int num_calls = 0;
  slow_.SetListener([&] { ++num_calls; });
  const AdapterPin first = slow_.Pin(Ref(0));
  const AdapterPin second = slow_.Pin(Ref(0));
  EXPECT_TRUE(slow_.IsResident(AdapterId(0)));
  EXPECT_FALSE(slow_.IsReady(AdapterId(0)));
  EXPECT_FALSE(slow_.IsInPool(AdapterId(0)));
  EXPECT_EQ(slow_.num_loading(), 1) << "two who want the same wait for the same";
  EXPECT_THAT(slow_.TakeLoaded(), IsEmpty());
  EXPECT_FALSE(slow_.HasLoaded());
  Copy();
  EXPECT_EQ(num_calls, 1);
  EXPECT_TRUE(slow_.HasLoaded());
  EXPECT_FALSE(slow_.IsReady(AdapterId(0)));
  EXPECT_THAT(slow_.TakeLoaded(), SizeIs(1));
  EXPECT_TRUE(slow_.IsReady(AdapterId(0)));
  EXPECT_TRUE(slow_.IsInPool(AdapterId(0)));
  EXPECT_EQ(slow_.num_loading(), 0);
  slow_.SetListener(nullptr);
}

TEST_F(SlowResidencyTest, NobodyGetsThePagesOfALoad) {
  const int64_t pages = slow_.PagesFor(Ref(0));
  slow_.Pin(Ref(0));  // and nobody wants it any more
  EXPECT_EQ(pool_.available(), pool_.total() - pages);
  Copy();
  EXPECT_EQ(pool_.available(), pool_.total() - pages);
  slow_.TakeLoaded();
  EXPECT_EQ(pool_.available(), pool_.total()) << "it is idle from now on";
  const AdapterPin pin = slow_.Pin(Ref(0));
  EXPECT_EQ(slow_.num_loads(), 1);
}

TEST_F(SlowResidencyTest, WhatIsPrefetchedIsIdle) {
  slow_.Prefetch(Ref(0));
  slow_.Prefetch(Ref(1));
  Copy();
  Copy();
  EXPECT_THAT(slow_.TakeLoaded(), SizeIs(2));
  EXPECT_EQ(pool_.available(), pool_.total());
  slow_.Touch(AdapterId(0));
  slow_.Touch(AdapterId(7));
  Press();
  EXPECT_TRUE(slow_.IsResident(AdapterId(0))) << "touched";
  EXPECT_FALSE(slow_.IsResident(AdapterId(1)));
  EXPECT_FALSE(slow_.IsInPool(AdapterId(1)));
}

TEST_F(SlowResidencyTest, WaitsForItsCopiesAtTheEnd) {
  std::thread copier;
  {
    Residency residency(DType::kF32, pool_, arena_, clock_,
                        [&](auto copy) { copier = std::thread(std::move(copy)); });
    residency.Pin(Ref(3));
  }
  copier.join();
  EXPECT_EQ(pool_.free(), pool_.total());
}

}  // namespace
}  // namespace aril
