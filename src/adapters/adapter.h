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
  // one tensor it has the columns of all, [out, rank · experts], rank by rank.
  TensorView b;
  int64_t b_first_col = 0;
  int64_t b_col_step = 1;
  std::vector<float> gains;  // [out] with DoRA (adapters/dora.h), else empty
  // What the views are of, if it is rows of tokens, which have no gains.
  std::shared_ptr<const TokenDeltas> tokens = nullptr;
};

// The base model's weights, where more than their shapes matters: DoRA's gains depend on them.
struct BaseWeights {
  const Checkpoint* checkpoint = nullptr;
  kernels::Isa isa;  // computes the gains
};

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
  // only its header is read.
  //
  // With DoRA it takes the time of reading the base's weights and of the products in
  // adapters/dora.h.
  enum class Values { kUnknown, kFinite };
  static StatusOr<Adapter> Open(const Folder& dir, const ModelSpec& base, int64_t max_rank,
                                Values values, const BaseWeights& weights);
  // For who only looks at an adapter: to be used, one with DoRA or with matrices outside of the
  // layers must be opened with the base's weights. Without them there are no gains, and a copy of
  // the base's own matrix, as PEFT writes it beside an adapted one, is not told from one that
  // training has changed: it is taken for a copy.
  static StatusOr<Adapter> OpenWithoutBase(const Folder& dir, const ModelSpec& base,
                                           int64_t max_rank, Values values = Values::kUnknown);

  const LoraSpec& spec() const { return spec_; }
  // Of the weights' file.
  int64_t file_bytes() const { return static_cast<int64_t>(file_.bytes().size()); }
  // What it holds while it is open: the file, and about so much private memory.
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
  const LoraPair* embedding() const { return embedding_ ? &*embedding_ : nullptr; }
  const LoraPair* lm_head() const { return lm_head_ ? &*lm_head_ : nullptr; }
  // Matrices [vocab, hidden] in place of the base model's; nullptr where that stays.
  const TensorView* embedding_table() const {
    return embedding_table_ ? &*embedding_table_ : nullptr;
  }
  const TensorView* lm_head_table() const { return lm_head_table_ ? &*lm_head_table_ : nullptr; }
  // Of a classifier; else null.
  const ClassHead* class_head() const { return class_head_ ? &*class_head_ : nullptr; }

 private:
  Adapter() = default;
  class Reader;
  // `weights`: null if they are not known.
  static StatusOr<Adapter> OpenWith(const BaseWeights* weights, const Folder& dir,
                                    const ModelSpec& base, int64_t max_rank, Values values);
  // From the file's tensors.
  Status Read(const ModuleNaming& naming, const ModelSpec& base, Values values,
              const BaseWeights* weights, ClassifierSpec classifier);
  using Layer = std::vector<std::optional<LoraPair>>;  // [sites], as in LoraSpec

  LoraSpec spec_;
  SafetensorsFile file_;
  std::vector<Layer> layers_;
  std::optional<LoraPair> embedding_, lm_head_;
  std::optional<TensorView> embedding_table_, lm_head_table_;
  std::optional<ClassHead> class_head_;
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_ADAPTER_H_
