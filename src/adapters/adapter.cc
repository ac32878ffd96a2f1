#include "adapters/adapter.h"

#include <algorithm>
#include <set>

#include "adapters/dora.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

// Of a name that a stranger's file brings into a message.
constexpr size_t kMaxShownName = 120;

constexpr const char* kEmbedding = "model.embed_tokens";
constexpr const char* kLmHead = "lm_head";

bool IsWeightDType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// Of tensors of one shape.
bool HaveEqualValues(const TensorView& a, const TensorView& b) {
  constexpr int64_t kChunk = 1 << 16;
  std::vector<float> a_values(kChunk);
  std::vector<float> b_values(kChunk);
  const int64_t size = a.num_elements();
  for (int64_t first = 0; first < size; first += kChunk) {
    const int64_t count = std::min(kChunk, size - first);
    CopyAsFloat(a, first, count, a_values.data());
    CopyAsFloat(b, first, count, b_values.data());
    if (!std::equal(a_values.begin(), a_values.begin() + count, b_values.begin())) return false;
  }
  return true;
}

Status RefusePickle(const Folder& dir) {
  for (const char* name : {"adapter_model.bin", "adapter_model.pt"}) {
    if (dir.Has(name)) {
      return InvalidArgument(
          StrCat(dir.PathOf(name),
                 ": pickle files can run code and are not read; save the adapter as safetensors"));
    }
  }
  return OkStatus();
}

StatusOr<LoraSpec> LoadSpec(const Folder& dir, const ModelSpec& base, int64_t max_rank) {
  const std::string path = dir.PathOf("adapter_config.json");
  ASSIGN_OR_RETURN(const LoraConfig config, LoadLoraConfig(dir));
  StatusOr<LoraSpec> spec = ResolveLora(config, base);
  if (!spec.ok()) return Annotate(spec.status(), path);
  if (spec->MaxRank() > max_rank) {
    return InvalidArgument(StrCat(path, ": the largest rank is ", spec->MaxRank(),
                                  ", more than the --max-lora-rank of ", max_rank));
  }
  return spec;
}

}  // namespace

// Takes tensors out of an adapter's file, and remembers which.
class Adapter::Reader {
 public:
  Reader(const TensorMap& tensors, const ModelSpec& base, const LoraSpec& spec, Values values,
         const BaseWeights* weights)
      : tensors_(tensors), base_(base), spec_(spec), values_(values), weights_(weights) {}

  // The matrices of a module; none if it is not targeted.
  StatusOr<std::optional<LoraPair>> Pair(const std::string& module, const LoraModule& lora,
                                         int64_t in, int64_t out) {
    if (lora.rank == 0) return std::nullopt;
    LoraPair pair;
    const bool is_embedding = module == kEmbedding;
    ASSIGN_OR_RETURN(pair.a, Take(module + (is_embedding ? ".lora_embedding_A" : ".lora_A.weight"),
                                  {lora.rank, in}));
    ASSIGN_OR_RETURN(pair.b, Take(module + (is_embedding ? ".lora_embedding_B" : ".lora_B.weight"),
                                  {out, lora.rank}));
    if (!spec_.use_dora) return pair;
    ASSIGN_OR_RETURN(const TensorView magnitude, Take(module + ".lora_magnitude_vector", {out}));
    if (weights_ == nullptr) return pair;
    ASSIGN_OR_RETURN(const TensorView weight,
                     is_embedding ? BaseMatrix(module, in, out) : BaseMatrix(module, out, in));
    const DoraModule dora{weight, pair.a, pair.b, magnitude, lora.scale};
    auto gains =
        is_embedding ? DoraEmbeddingGains(dora, weights_->isa) : DoraGains(dora, weights_->isa);
    if (!gains.ok()) return Annotate(gains.status(), module);
    pair.gains = *std::move(gains);
    return pair;
  }

  // A matrix [vocab, hidden] in place of the base model's. PEFT writes one if the config names the
  // module in modules_to_save, but also beside other adapted modules, as it was in training: then
  // it is the base's own most of the time, and left out.
  StatusOr<std::optional<TensorView>> Table(const std::string& module, bool is_named) {
    const Shape shape = {base_.vocab_size, base_.hidden_size};
    if (is_named) {
      ASSIGN_OR_RETURN(TensorView table, Take(module + ".weight", shape));
      return table;
    }
    for (const char* suffix : {".weight", ".base_layer.weight"}) {
      const std::string name = FullName(module + suffix);
      if (!tensors_.contains(name)) continue;
      ASSIGN_OR_RETURN(TensorView table, Take(module + suffix, shape));
      if (weights_ == nullptr) return std::nullopt;  // nobody knows yet
      ASSIGN_OR_RETURN(const TensorView weight, BaseMatrix(module, shape[0], shape[1]));
      if (HaveEqualValues(table, weight)) return std::nullopt;
      if (base_.tie_word_embeddings) {
        return Unimplemented(StrCat(
            "tensor ", name,
            " would change both the embedding and lm_head, which are one matrix "
            "in this base model; supported is one that the config names in modules_to_save"));
      }
      return table;
    }
    return std::nullopt;
  }

  // Nothing may be left: serving an adapter without a part of it would change its results.
  Status CheckAllTaken() const {
    for (const auto& [name, tensor] : tensors_) {
      if (taken_.contains(name)) continue;
      const std::string unmatched =
          spec_.unmatched_targets.empty()
              ? ""
              : StrCat(", which names ", spec_.unmatched_targets, " in vain");
      return InvalidArgument(StrCat("tensor ", JsonQuote(name.substr(0, kMaxShownName)),
                                    " belongs to no target module of this base model (",
                                    base_.num_layers, " layers) and this config", unmatched,
                                    "; serving the adapter without it would change its results"));
    }
    return OkStatus();
  }

 private:
  static std::string FullName(const std::string& name) { return "base_model.model." + name; }

  StatusOr<TensorView> Take(const std::string& short_name, const Shape& shape) {
    const std::string name = FullName(short_name);
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      return InvalidArgument(StrCat("tensor ", name,
                                    " is missing, although adapter_config.json (target_modules, "
                                    "modules_to_save, use_dora) asks for it"));
    }
    const TensorView& tensor = found->second;
    if (tensor.shape != shape) {
      return InvalidArgument(StrCat("tensor ", name, " has shape ", ToString(tensor.shape),
                                    ", but this base model and the config's rank need ",
                                    ToString(shape),
                                    ": was the adapter trained for another base model?"));
    }
    if (!IsWeightDType(tensor.dtype)) {
      return InvalidArgument(StrCat("tensor ", name, " has dtype ", tensor.dtype,
                                    "; supported are F32, F16 and BF16"));
    }
    if (values_ == Values::kUnknown && !AllFinite(tensor)) {
      return InvalidArgument(StrCat("tensor ", name, " holds NaN or infinite values"));
    }
    taken_.insert(name);
    return tensor;
  }

  StatusOr<TensorView> BaseMatrix(const std::string& module, int64_t rows, int64_t cols) const {
    const bool is_tied = module == kLmHead && base_.tie_word_embeddings;
    return weights_->checkpoint->Get(StrCat(is_tied ? kEmbedding : module, ".weight"),
                                     {rows, cols});
  }

  const TensorMap& tensors_;
  const ModelSpec& base_;
  const LoraSpec& spec_;
  const Values values_;
  const BaseWeights* weights_;  // null: not known
  std::set<std::string, std::less<>> taken_;
};

StatusOr<Adapter> Adapter::Open(const Folder& dir, const ModelSpec& base, int64_t max_rank,
                                Values values, const BaseWeights& weights) {
  return OpenWith(&weights, dir, base, max_rank, values);
}

StatusOr<Adapter> Adapter::OpenWithoutBase(const Folder& dir, const ModelSpec& base,
                                           int64_t max_rank, Values values) {
  return OpenWith(nullptr, dir, base, max_rank, values);
}

StatusOr<Adapter> Adapter::OpenWith(const BaseWeights* weights, const Folder& dir,
                                    const ModelSpec& base, int64_t max_rank, Values values) {
  Adapter adapter;
  ASSIGN_OR_RETURN(adapter.spec_, LoadSpec(dir, base, max_rank));
  constexpr const char* kWeights = "adapter_model.safetensors";
  auto file = SafetensorsFile::Open(dir, kWeights);
  if (file.status().code() == StatusCode::kNotFound) RETURN_IF_ERROR(RefusePickle(dir));
  RETURN_IF_ERROR(file.status());
  adapter.file_ = *std::move(file);
  const Status read = adapter.Read(base, values, weights);
  // Not what zeros in the place of lost bytes look like.
  RETURN_IF_ERROR(Annotate(adapter.CheckIntact(), dir.PathOf(kWeights)));
  if (!read.ok()) return Annotate(read, dir.PathOf(kWeights));
  return adapter;
}

Status Adapter::Read(const ModelSpec& base, Values values, const BaseWeights* weights) {
  Reader reader(file_.tensors(), base, spec_, values, weights);
  layers_.resize(static_cast<size_t>(base.num_layers));
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    for (const Projection projection : kAllProjections) {
      ASSIGN_OR_RETURN(layers_[static_cast<size_t>(layer)][static_cast<size_t>(projection)],
                       reader.Pair(StrCat("model.layers.", layer, ".", ModulePath(projection)),
                                   spec_.At(layer, projection), base.InFeatures(projection),
                                   base.OutFeatures(projection)));
    }
  }
  ASSIGN_OR_RETURN(embedding_,
                   reader.Pair(kEmbedding, spec_.embedding, base.vocab_size, base.hidden_size));
  ASSIGN_OR_RETURN(lm_head_,
                   reader.Pair(kLmHead, spec_.lm_head, base.hidden_size, base.vocab_size));
  ASSIGN_OR_RETURN(embedding_table_, reader.Table(kEmbedding, spec_.replaces_embedding));
  ASSIGN_OR_RETURN(lm_head_table_, reader.Table(kLmHead, spec_.replaces_lm_head));
  spec_.replaces_embedding = embedding_table_.has_value();
  spec_.replaces_lm_head = lm_head_table_.has_value();
  // Their lengths would be those of the adapter's own matrix.
  if (spec_.use_dora && lm_head_ && lm_head_table_) {
    return Unimplemented("DoRA on an lm_head of the adapter's own is not supported");
  }
  if (spec_.use_dora && embedding_ && embedding_table_) {
    return Unimplemented("DoRA on an embedding of the adapter's own is not supported");
  }
  return reader.CheckAllTaken();
}

Status Adapter::CheckIntact() const {
  return file_.is_intact() ? OkStatus() : InvalidArgument("the file has been truncated");
}

const LoraPair* Adapter::Find(int64_t layer, Projection projection) const {
  const auto& pair = layers_[static_cast<size_t>(layer)][static_cast<size_t>(projection)];
  return pair.has_value() ? &*pair : nullptr;
}

}  // namespace aril
