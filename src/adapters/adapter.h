// A PEFT adapter on the host: its config and its mapped weights, verified against the base model.

#ifndef ARIL_ADAPTERS_ADAPTER_H_
#define ARIL_ADAPTERS_ADAPTER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/class_head.h"
#include "adapters/token_deltas.h"
#include "base/folder.h"
#include "base/status.h"
#include "kernels/cpu/isa.h"
#include "spec/lora_spec.h"
#include "spec/model_spec.h"
#include "tensor/safetensors.h"

namespace aril {

// The two matrices of one site, as PEFT stores them; views into the mapped file. Those of one
// module have the same A.
struct LoraPair {
  TensorView a;  // lora_A [rank, in]
  // lora_B [out, rank], whose column j is this one's b_first_col + j · b_col_step: of experts in
  // one tensor it has the columns of all, [out, rank · experts], rank by rank; and where gate and
  // up lie in turns, those of both, one behind the other.
  TensorView b;
  int64_t b_first_col = 0;
  int64_t b_col_step = 1;
  std::vector<float> gains;  // [out] with DoRA (adapters/dora.h), else empty
  // What the views are of, if it is rows of tokens, which have no gains.
  std::shared_ptr<const TokenDeltas> tokens = nullptr;
};

// Of a layer's sites, up to those around the last that is adapted, as in LoraSpec.
using LoraLayer = std::vector<std::optional<LoraPair>>;

// Outside of the layers: pairs (of rows of tokens, too), and matrices [vocab, hidden] in place of
// the base model's.
struct OuterTensors {
  std::optional<LoraPair> embedding, lm_head;
  std::optional<TensorView> embedding_table, lm_head_table;
  int64_t unused_bytes = 0;  // of whole matrices of the file that are not among them
};

// The base model's weights, where more than their shapes matters: DoRA's gains depend on them.
struct BaseWeights {
  const Checkpoint* checkpoint = nullptr;
  kernels::Isa isa;  // computes the gains
};

class AdapterTensors;

// Immutable once opened; thread-safe. Costs address space and page cache, and of private memory
// what is known of each site and tensor.
class Adapter {
 public:
  // Reads adapter_config.json and adapter_model.safetensors and checks everything: the config
  // (spec/lora_config.h, lora_spec.h), that each target module has its matrices with the base
  // model's shapes, that the file holds nothing else, that all values are finite, that no rank is
  // over `max_rank`. InvalidArgument or NotFound says what is wrong and where.
  //
  // With kFinite the values are known to be finite, from a time when the same file was checked:
  // only its header is read, and matrices that have to be compared with the base's.
  //
  // With DoRA it takes the time of reading the base's weights and of the products in
  // adapters/dora.h.
  enum class Values { kUnknown, kFinite };
  static StatusOr<Adapter> Open(const Folder& dir, const ModelSpec& base, int64_t max_rank,
                                Values values, const BaseWeights& weights);
  // For who only looks at an adapter: to be used, one with DoRA or with matrices outside of the
  // layers must be opened with the base's weights. Without them there are no gains, no rows of
  // tokens have values, and a copy of the base's own matrix, as PEFT writes it beside an adapted
  // one or where the vocabulary was resized, is not told from one that training has changed: it is
  // taken for a copy.
  static StatusOr<Adapter> OpenWithoutBase(const Folder& dir, const ModelSpec& base,
                                           int64_t max_rank, Values values = Values::kUnknown);

  const LoraSpec& spec() const { return spec_; }
  // Of the weights' file.
  int64_t file_bytes() const { return static_cast<int64_t>(file_.bytes().size()); }
  // What it holds while it is open: the file, but for matrices that are not in use any more, and
  // about so much private memory.
  int64_t held_bytes() const;
  int64_t num_layers() const { return static_cast<int64_t>(layers_.size()); }
  // Those of a layer are numbered below this that the adapter may change.
  int64_t num_sites(int64_t layer) const {
    return static_cast<int64_t>(layers_[static_cast<size_t>(layer)].size());
  }
  // InvalidArgument once something was read of its weights that their file does not have any more.
  Status CheckIntact() const;
  // The pair of a site, or nullptr if the adapter does not target it.
  const LoraPair* Find(int64_t layer, Site site) const;
  // Of the embedding (lora_embedding_A [rank, vocab], lora_embedding_B [hidden, rank]) and of
  // lm_head, rows of tokens included; nullptr likewise.
  const LoraPair* embedding() const { return PointerTo(outer_.embedding); }
  const LoraPair* lm_head() const { return PointerTo(outer_.lm_head); }
  // Matrices [vocab, hidden] in place of the base model's; nullptr where that stays. Both may be
  // the same.
  const TensorView* embedding_table() const { return PointerTo(outer_.embedding_table); }
  const TensorView* lm_head_table() const { return PointerTo(outer_.lm_head_table); }
  // Of a classifier; else null.
  const ClassHead* class_head() const { return PointerTo(class_head_); }

 private:
  Adapter() = default;
  // `weights`: null if they are not known.
  static StatusOr<Adapter> OpenWith(const BaseWeights* weights, const Folder& dir,
                                    const ModelSpec& base, int64_t max_rank, Values values);
  // From the file's tensors. `base`: with the adapter's vocabulary; `base_vocab` is its own.
  Status Read(AdapterTensors& tensors, const ModelSpec& base, int64_t base_vocab,
              ClassifierSpec classifier);
  template <typename T>
  static const T* PointerTo(const std::optional<T>& value) {
    return value ? &*value : nullptr;
  }

  LoraSpec spec_;
  SafetensorsFile file_;
  std::vector<LoraLayer> layers_;
  OuterTensors outer_;
  std::optional<ClassHead> class_head_;
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_ADAPTER_H_
