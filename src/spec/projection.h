// The linear maps of a decoder layer: what they are called, and by which numbers adapters know
// them.

#ifndef ARIL_SPEC_PROJECTION_H_
#define ARIL_SPEC_PROJECTION_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace aril {

// The linear projections of a decoder layer that an adapter may target: attention's and the MLP's,
// in the order in which the forward pass meets them, and then those that a layer with linear
// attention has in place of attention's (Qwen3.5).
enum class Projection : uint8_t {
  kQ,
  kK,
  kV,
  kO,
  kGate,
  kUp,
  kDown,
  kDeltaQkv,
  kDeltaZ,
  kDeltaB,
  kDeltaA,
  kDeltaOut,
};
inline constexpr int kNumProjections = 12;
inline constexpr std::array<Projection, kNumProjections> kAllProjections = {
    Projection::kQ,      Projection::kK,      Projection::kV,      Projection::kO,
    Projection::kGate,   Projection::kUp,     Projection::kDown,   Projection::kDeltaQkv,
    Projection::kDeltaZ, Projection::kDeltaB, Projection::kDeltaA, Projection::kDeltaOut};
// Whether it is one of a layer with linear attention; or of the MLP, which all have.
constexpr bool IsOfDelta(Projection projection) { return projection >= Projection::kDeltaQkv; }
constexpr bool IsOfMlp(Projection projection) {
  return projection >= Projection::kGate && !IsOfDelta(projection);
}
inline constexpr std::array kExpertProjections = {Projection::kGate, Projection::kUp,
                                                  Projection::kDown};

// "q_proj", …
std::string_view Name(Projection projection);

// A linear map of a layer that an adapter may change. They are numbered: the projections come
// first; a mixture of experts has no kGate, kUp and kDown of the layer's own, but after them its
// router, and then kGate, kUp and kDown of each expert.
class Site {
 public:
  constexpr Site(Projection projection) : index_(static_cast<int64_t>(projection)) {}
  static constexpr Site At(int64_t index) { return Site(index); }
  static constexpr Site Router() { return Site(kNumProjections); }
  static constexpr Site OfExpert(int64_t expert, Projection projection) {
    return Site(kFirstOfExperts + expert * kPerExpert + static_cast<int64_t>(projection) -
                static_cast<int64_t>(Projection::kGate));
  }
  // Of a layer whose MLP is a mixture of so many; 0: is none.
  static constexpr int64_t Count(int64_t experts) {
    return experts == 0 ? kNumProjections : kFirstOfExperts + experts * kPerExpert;
  }
  // The sites that end with this one, and those that share its input: how many numbers they take.
  // Of an adapter that leaves experts alone, there are no more.
  constexpr int64_t CountUpTo() const {
    if (is_of_expert()) return Count(expert() + 1);
    return is_router() ? kFirstOfExperts : kNumProjections;
  }

  constexpr int64_t index() const { return index_; }
  constexpr bool is_router() const { return index_ == kNumProjections; }
  constexpr bool is_of_expert() const { return index_ >= kFirstOfExperts; }
  // Of what is no router: which it is, those of an expert being an MLP's.
  constexpr Projection projection() const {
    if (!is_of_expert()) return static_cast<Projection>(index_);
    return kExpertProjections[static_cast<size_t>((index_ - kFirstOfExperts) % kPerExpert)];
  }
  constexpr int64_t expert() const { return (index_ - kFirstOfExperts) / kPerExpert; }
  // The path inside a layer of the module that it is, where each is one: "self_attn.q_proj",
  // "mlp.gate" for the router, "mlp.experts.7.up_proj".
  std::string Path() const;

  friend constexpr bool operator==(Site, Site) = default;

 private:
  static constexpr int64_t kPerExpert = kExpertProjections.size();
  static constexpr int64_t kFirstOfExperts = kNumProjections + 1;
  explicit constexpr Site(int64_t index) : index_(index) {}

  int64_t index_;
};

// A linear module of a decoder layer as files have it: a site, or several whose outputs lie one
// behind the other (Phi-3's "self_attn.qkv_proj"): [first, first + num_sites).
struct LinearModule {
  std::string path;  // inside a layer
  Site first;
  int64_t num_sites = 1;

  Site At(int64_t i) const { return Site::At(first.index() + i); }
};
// "qkv_proj", …
std::string_view Name(const LinearModule& module);

// Where files have a projection of all experts of a layer, or two one below the other, as one
// tensor: transformers 5's [experts, rows, cols].
struct StackedExperts {
  std::string_view path;  // inside a layer, of the tensor
  Projection first;
  int64_t num_projections = 1;

  Site At(int64_t expert, int64_t i) const {
    return Site::At(Site::OfExpert(expert, first).index() + i);
  }
  bool Has(Projection projection) const {
    const int64_t i = static_cast<int64_t>(projection) - static_cast<int64_t>(first);
    return i >= 0 && i < num_projections;
  }
};
inline constexpr std::array kStackedExperts = {
    StackedExperts{"mlp.experts.gate_up_proj", Projection::kGate, 2},
    StackedExperts{"mlp.experts.down_proj", Projection::kDown}};

}  // namespace aril

#endif  // ARIL_SPEC_PROJECTION_H_
