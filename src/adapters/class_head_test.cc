#include "adapters/class_head.h"

#include <cmath>
#include <functional>

#include "adapters/adapter.h"
#include "adapters/test_support.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHead[] = "base_model.model.score.weight";
const std::string kModel = SourcePath("tests/goldens/llama-f32-sharded");
const std::string kClassifier =
    SourcePath("tests/goldens-classifiers/llama-f32-sharded/three-labels-r4");

using Tensors = std::map<std::string, EditableTensors::Tensor>;

class ClassHeadTest : public ::testing::Test {
 protected:
  StatusOr<Adapter> Open(const std::string& dir) const {
    return Adapter::OpenWithoutBase(dir, *base_, kMaxLoraRank);
  }
  // Of a copy of the golden that `edit` has changed.
  StatusOr<Adapter> OpenEdited(const std::function<void(Tensors&)>& edit) const {
    const TestDir dir(kClassifier);
    EditTensors(dir / "adapter_model.safetensors", edit);
    return Open(dir.path());
  }
  std::string ErrorOf(const std::function<void(Tensors&)>& edit) const {
    const auto opened = OpenEdited(edit);
    EXPECT_EQ(opened.status().code(), StatusCode::kInvalidArgument);
    return std::string(Message(opened.status()));
  }
  EditableTensors::Tensor HeadOf(int64_t labels) const {
    return EditableTensors::Tensor::Filled({labels, base_->hidden_size}, 0.5f);
  }

  const StatusOr<ModelSpec> base_ = LoadModelSpec(kModel);
};

TEST_F(ClassHeadTest, SumsInDouble) {
  const std::vector<float> weight = {0x1p24f, 1, -0x1p24f, 3, 0, -2};
  const ClassHead head(
      TensorView{reinterpret_cast<const std::byte*>(weight.data()), DType::kF32, {2, 3}}, {});
  EXPECT_EQ(head.num_labels(), 2);
  const std::vector<float> state = {1, 0.5f, 1};
  EXPECT_THAT(head.Logits(state), ElementsAre(0.5f, 1.0f)) << "floats would have lost the half";
}

// Of a head of as many labels, of which the weights do not matter.
std::vector<float> ProbabilitiesOf(std::vector<float> logits, ClassifierSpec::Kind kind) {
  const TensorView weight{
      reinterpret_cast<const std::byte*>(logits.data()), DType::kF32, {std::ssize(logits), 1}};
  return ClassHead(weight, {.kind = kind}).Probabilities(logits);
}

TEST_F(ClassHeadTest, ProbabilitiesAreAsTransformersHasThem) {
  using Kind = ClassifierSpec::Kind;
  const float log3 = std::log(3.0f);
  for (const Kind kind : {ClassifierSpec().kind, Kind::kOneIsRight}) {
    EXPECT_THAT(ProbabilitiesOf({0, log3}, kind), ElementsAre(0.25f, 0.75f));
    EXPECT_THAT(ProbabilitiesOf({-3000, 3000, 3000}, kind), ElementsAre(0, 0.5f, 0.5f));
    EXPECT_THAT(ProbabilitiesOf({log3}, kind), ElementsAre(0.75f)) << "that of yes";
  }
  EXPECT_THAT(ProbabilitiesOf({-1000, 0, log3, 1000}, Kind::kEachMayBeRight),
              ElementsAre(0, 0.5f, 0.75f, 1));
  EXPECT_THAT(ProbabilitiesOf({-7.5f, 3}, Kind::kRegression), ElementsAre(-7.5f, 3));
  EXPECT_THAT(ProbabilitiesOf({9}, Kind::kRegression), ElementsAre(9));
}

TEST_F(ClassHeadTest, ReadsATextUpToItsPadding) {
  const TestDir dir(kClassifier);
  const auto last_of = [&](std::vector<int32_t> tokens, const ModelSpec& base) {
    const auto adapter = Adapter::OpenWithoutBase(dir.path(), base, kMaxLoraRank);
    EXPECT_TRUE(adapter.ok()) << adapter.status();
    const auto rest = adapter->class_head()->WithoutPadding(tokens);
    return std::vector<int32_t>(rest.begin(), rest.end());
  };
  ModelSpec base = *base_;
  EXPECT_THAT(last_of({5, 2, 2}, base), ElementsAre(5, 2, 2)) << "nothing says what pads";
  base.pad_token_id = 2;
  EXPECT_THAT(last_of({5, 2, 7, 2, 2}, base), ElementsAre(5, 2, 7));
  EXPECT_THAT(last_of({2, 2}, base), ElementsAre(2));
  // What the adapter's folder says wins, also if it says nothing.
  std::ofstream(dir / "config.json") << R"({"pad_token_id":7})";
  EXPECT_THAT(last_of({5, 2, 7}, base), ElementsAre(5, 2));
  std::ofstream(dir / "config.json") << "{}";
  EXPECT_THAT(last_of({5, 2}, base), ElementsAre(5, 2));
}

TEST_F(ClassHeadTest, NamesTheLargestAsTheFolderDoes) {
  const TestDir dir(kClassifier);
  const auto label_of = [&](std::vector<float> logits) {
    const auto adapter = Open(dir.path());
    EXPECT_TRUE(adapter.ok()) << adapter.status();
    return adapter->class_head()->LabelOf(logits);
  };
  EXPECT_EQ(label_of({1, 3, 2}), "LABEL_1");
  EXPECT_EQ(label_of({1, 3, 3}), "LABEL_1") << "the first";
  std::ofstream(dir / "config.json") << R"({"id2label":{"1":"spam","0":"ham"}})";
  EXPECT_EQ(label_of({1, 3, 2}), "spam");
  EXPECT_EQ(label_of({1, 3, 5}), "LABEL_2") << "it has no name";
  std::ofstream(dir / "config.json") << R"({"id2label":["ham"]})";
  const auto refused = Open(dir.path());
  ASSERT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(refused.status()), HasSubstr("config.json: \"id2label\" is"));
  // Who is no classifier may have any.
  const TestDir other(kModel + "/adapters/all-r4");
  std::ofstream(other / "config.json") << "not even JSON";
  EXPECT_TRUE(Open(other.path()).ok());
}

TEST_F(ClassHeadTest, ComesWithAClassifier) {
  const auto adapter = Open(kClassifier);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  ASSERT_NE(adapter->class_head(), nullptr);
  EXPECT_EQ(adapter->class_head()->num_labels(), 3);
  EXPECT_TRUE(adapter->spec().is_classifier);
  EXPECT_FALSE(adapter->spec().can_be_weighted());
  const auto larger = OpenEdited([&](Tensors& tensors) { tensors[kHead] = HeadOf(4); });
  ASSERT_TRUE(larger.ok()) << larger.status();
  EXPECT_GE(larger->held_bytes() - adapter->held_bytes(),
            base_->hidden_size * static_cast<int64_t>(sizeof(float)))
      << "what it holds in memory counts";
  const auto other = Open(kModel + "/adapters/all-r4");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->class_head(), nullptr);
  EXPECT_FALSE(other->spec().is_classifier);
}

TEST_F(ClassHeadTest, MayHaveAsManyLabelsAsAnAnswerHasRoomFor) {
  EXPECT_TRUE(OpenEdited([&](Tensors& tensors) { tensors[kHead] = HeadOf(kMaxClassLabels); }).ok());
  EXPECT_THAT(ErrorOf([&](Tensors& tensors) { tensors[kHead] = HeadOf(kMaxClassLabels + 1); }),
              HasSubstr("has 1025 labels; there may be 1 to 1024"));
  EXPECT_THAT(ErrorOf([&](Tensors& tensors) { tensors[kHead] = HeadOf(0); }),
              HasSubstr("has 0 labels"));
}

TEST_F(ClassHeadTest, OfAnotherFormIsRefused) {
  EXPECT_THAT(ErrorOf([](Tensors& tensors) { tensors.erase(kHead); }),
              HasSubstr(StrCat("tensor ", kHead, " is missing")));
  EXPECT_THAT(ErrorOf([](Tensors& tensors) {
                tensors[kHead] = EditableTensors::Tensor::Filled({3, 32}, 1);
              }),
              HasSubstr("has shape [3, 32]"));
  EXPECT_THAT(
      ErrorOf([](Tensors& tensors) { tensors[kHead] = EditableTensors::Tensor::Filled({}, 1); }),
      HasSubstr("a scalar"));
  EXPECT_THAT(ErrorOf([](Tensors& tensors) { tensors[kHead].Set(5, NAN); }),
              HasSubstr("NaN or infinite"));
  // A bias, and the head of an encoder.
  for (const char* name : {"score.bias", "classifier.weight"}) {
    EXPECT_THAT(
        ErrorOf([&](Tensors& tensors) {
          tensors[StrCat("base_model.model.", name)] = EditableTensors::Tensor::Filled({3, 64}, 1);
        }),
        HasSubstr("belongs to no target module"))
        << name;
  }
}

TEST_F(ClassHeadTest, OfAnAdapterThatIsNoClassifierIsRefused) {
  const TestDir dir(kModel + "/adapters/all-r4");
  EditTensors(dir / "adapter_model.safetensors",
              [&](Tensors& tensors) { tensors[kHead] = HeadOf(2); });
  const auto adapter = Open(dir.path());
  ASSERT_FALSE(adapter.ok());
  EXPECT_THAT(Message(adapter.status()), HasSubstr("belongs to no target module"));
}

}  // namespace
}  // namespace aril
