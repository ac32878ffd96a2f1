// What an adapter *is* on a base model: the rank and the scale of each module, without weights.

#ifndef ARIL_SPEC_LORA_SPEC_H_
#define ARIL_SPEC_LORA_SPEC_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/lora_config.h"
#include "spec/model_spec.h"
#include "spec/module_naming.h"
#include "spec/token_rows.h"

namespace aril {

// A vocabulary that was resized may have so many tokens more than the base model's, for which each
// step has room; or so many fewer, which no tokenizer has had.
inline constexpr int64_t kMaxAddedTokens = 1 << 14;
inline constexpr int64_t kMaxRemovedTokens = 1 << 12;

// What transformers calls the head of a classifier, of any of our architectures.
inline constexpr std::string_view kClassHeadModule = "score";

// One module's y = xW + scale·(xAᵀ)Bᵀ; rank 0 where the adapter leaves the module alone. Of the
// embedding, x is one-hot.
struct LoraModule {
  int64_t rank = 0;
  // lora_alpha / rank, or lora_alpha / sqrt(rank) with rsLoRA.
  double scale = 0;

  friend bool operator==(const LoraModule&, const LoraModule&) = default;
};

struct LoraSpec {
  // [num_layers][sites], up to those around the last that is adapted.
  std::vector<std::vector<LoraModule>> layers;
  LoraModule embedding;  // model.embed_tokens
  LoraModule lm_head;
  // [num_layers]: which of kStackedExperts the file has as matrices of all experts together; of
  // the others an expert has its own.
  std::vector<std::array<bool, kStackedExperts.size()>> stacked;
  // The version of PEFT that wrote the file took rows of such matrices for columns, or is unknown.
  bool stacks_may_be_turned = false;
  // Tokens that it can read and write: the base model's vocabulary, unless that was resized.
  int64_t vocab_size = 0;
  // The adapter brings a matrix of its own in place of the base model's ("modules_to_save"), to
  // which the above adds.
  bool replaces_embedding = false;
  bool replaces_lm_head = false;
  // It has rows of its own in place of the base model's, or behind them: those that were trained as
  // such, and those in which a matrix of its own differs, if they are few. Of those matrices
  // `embedding` and `lm_head` then are the differences: a rank for each row, with scale 1.
  OwnTokenRows token_rows;
  // The length of each row of an adapted weight is learned, too (DoRA).
  bool use_dora = false;
  // It has a head of its own for hidden states, and no use for lm_head (adapters/class_head.h).
  bool is_classifier = false;
  // Not empty: it applies from the last place on where a prompt has these tokens (activated LoRA).
  std::vector<int32_t> invocation_tokens;
  // For people: the names in target_modules and target_parameters that nothing in the base model
  // has, quoted and cut.
  std::string unmatched_targets;

  LoraModule At(int64_t layer, Site site) const {
    const std::vector<LoraModule>& modules = layers[static_cast<size_t>(layer)];
    const auto index = static_cast<size_t>(site.index());
    return index < modules.size() ? modules[index] : LoraModule();
  }
  // Another weight than 1 would mean what no training has seen: see DoRA's gains
  // (kernels/lora/lora.h), and a matrix of one's own is there or not.
  bool can_be_weighted() const {
    return !use_dora && !brings_embedding() && !brings_lm_head() && !is_classifier;
  }
  // Whether there is anything outside of the layers, but for a classifier's head.
  bool changes_outer() const {
    return embedding.rank > 0 || lm_head.rank > 0 || replaces_embedding || replaces_lm_head;
  }
  // The whole matrix, or rows of it.
  bool brings_embedding() const { return replaces_embedding || !token_rows.embedding.empty(); }
  bool brings_lm_head() const { return replaces_lm_head || !token_rows.lm_head.empty(); }
  // The first token that the adapter applies to in a sequence that begins with this prompt; none if
  // the prompt does not invoke it. (Nothing that is generated behind it does, as in PEFT. Source:
  // tuners/lora/variants.py, calculate_alora_offsets and get_alora_offsets_for_generate.)
  std::optional<int64_t> FirstToken(std::span<const int32_t> prompt) const;
  // The largest rank of a module.
  int64_t MaxRank() const;
};

// Where a prompt invokes an activated LoRA by these tokens (LoraSpec::invocation_tokens), as
// LoraSpec::FirstToken.
std::optional<int64_t> FindInvocation(std::span<const int32_t> invocation_tokens,
                                      std::span<const int32_t> prompt);

// Finds the modules that a configuration targets or replaces, as PEFT does. Like there, one of
// several names may match nothing: nothing was trained there, and a file with tensors for it does
// not fit. An error if none matches: the adapter belongs to another model.
// `naming`: how the base model's modules are called where the adapter was trained.
StatusOr<LoraSpec> ResolveLora(const LoraConfig& config, const ModelSpec& base,
                               const ModuleNaming& naming = kTextNaming);

}  // namespace aril

#endif  // ARIL_SPEC_LORA_SPEC_H_
