#include "adapters/adapter.h"

#include <algorithm>
#include <set>
#include <utility>

#include "adapters/dora.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

// Of a name that a stranger's file brings into a message.
constexpr size_t kMaxShownName = 120;

constexpr std::string_view kPrefix = "base_model.model.";  // of all tensors' names
constexpr const char* kWeights = "adapter_model.safetensors";

bool IsWeightDType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// Of matrices of one shape.
bool HaveEqualValues(const TensorView& a, const WeightView& b) {
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

StatusOr<LoraSpec> Resolve(const LoraConfig& config, const ModelSpec& base,
                           const ModuleNaming& naming, int64_t max_rank) {
  ASSIGN_OR_RETURN(LoraSpec spec, ResolveLora(config, base, naming));
  if (spec.MaxRank() > max_rank) {
    return InvalidArgument(StrCat("the largest rank is ", spec.MaxRank(),
                                  ", more than the --max-lora-rank of ", max_rank));
  }
  return spec;
}

StatusOr<SafetensorsFile> OpenWeights(const Folder& dir) {
  auto file = SafetensorsFile::Open(dir, kWeights);
  if (file.status().code() == StatusCode::kNotFound) RETURN_IF_ERROR(RefusePickle(dir));
  return file;
}

}  // namespace

// Takes tensors out of an adapter's file, and remembers which.
class Adapter::Reader {
 public:
  Reader(const TensorMap& tensors, const ModuleNaming& naming, const ModelSpec& base,
         const LoraSpec& spec, Values values, const BaseWeights* weights)
      : tensors_(tensors),
        naming_(naming),
        base_(base),
        spec_(spec),
        values_(values),
        weights_(weights),
        modules_(base.LinearModules()) {}

  // The pairs of a layer's sites that are targeted.
  StatusOr<Layer> ReadLayer(int64_t index) {
    Layer layer(spec_.layers[static_cast<size_t>(index)].size());
    for (const LinearModule& linear : modules_) {
      if (spec_.At(index, linear.first).rank == 0 || IsStacked(index, linear.first)) continue;
      RETURN_IF_ERROR(ReadModule(index, linear, &layer));
    }
    for (size_t s = 0; s < kStackedExperts.size(); ++s) {
      if (!spec_.stacked[static_cast<size_t>(index)][s]) continue;
      RETURN_IF_ERROR(ReadStack(index, s, &layer));
    }
    return layer;
  }

  // Of the embedding and of lm_head; none if it is not targeted.
  StatusOr<std::optional<LoraPair>> Embedding() {
    const LoraModule& lora = spec_.embedding;
    if (lora.rank == 0) return std::nullopt;
    if (!spec_.token_rows.embedding.empty()) {
      return MakeTokenPair(naming_.Embedding(), kTextNaming.Embedding(),
                           spec_.token_rows.embedding);
    }
    ASSIGN_OR_RETURN(const Tensors tensors, TakeModule(naming_.Embedding(), lora.rank,
                                                       base_.vocab_size, base_.hidden_size));
    return MakePair(tensors, lora, kTextNaming.Embedding(), TableShape());
  }
  StatusOr<std::optional<LoraPair>> LmHead() {
    const LoraModule& lora = spec_.lm_head;
    if (lora.rank == 0) return std::nullopt;
    if (!spec_.token_rows.lm_head.empty()) {
      return MakeTokenPair(spec_.token_rows.lm_head_has_the_embeddings
                               ? naming_.Embedding()
                               : std::string(naming_.lm_head),
                           std::string(kTextNaming.lm_head), spec_.token_rows.lm_head);
    }
    ASSIGN_OR_RETURN(const Tensors tensors, TakeModule(std::string(naming_.lm_head), lora.rank,
                                                       base_.hidden_size, base_.vocab_size));
    return MakePair(tensors, lora, std::string(kTextNaming.lm_head), TableShape());
  }

  StatusOr<std::optional<TensorView>> EmbeddingTable() {
    return Table(naming_.Embedding(), kTextNaming.Embedding(), spec_.replaces_embedding);
  }
  StatusOr<std::optional<TensorView>> LmHeadTable() {
    if (naming_.lm_head.empty()) return std::nullopt;
    return Table(std::string(naming_.lm_head), std::string(kTextNaming.lm_head),
                 spec_.replaces_lm_head);
  }

  // Of a classifier; as many labels as its file has.
  StatusOr<std::optional<ClassHead>> Head(ClassifierSpec classifier) {
    if (!spec_.is_classifier) return std::nullopt;
    const std::string module = StrCat(kClassHeadModule, ".weight");
    const auto found = tensors_.find(FullName(module));
    if (found == tensors_.end() || found->second.shape.empty()) {
      return InvalidArgument(StrCat("tensor ", FullName(module),
                                    " is missing or a scalar: \"task_type\" is \"SEQ_CLS\", and "
                                    "the head of such an adapter is that"));
    }
    const int64_t num_labels = found->second.shape[0];
    if (num_labels < 1 || num_labels > kMaxClassLabels) {
      return InvalidArgument(StrCat("tensor ", FullName(module), " has ", num_labels,
                                    " labels; there may be 1 to ", kMaxClassLabels));
    }
    ASSIGN_OR_RETURN(const TensorView weight, Take(module, {num_labels, base_.hidden_size}));
    return ClassHead(weight, std::move(classifier));
  }

  // Nothing may be left: serving an adapter without a part of it would change its results. But
  // what changes how images are seen does nothing for text.
  Status CheckAllTaken() const {
    for (const auto& [name, tensor] : tensors_) {
      if (taken_.contains(name)) continue;
      if (naming_.is_multimodal() && name.starts_with(kPrefix) &&
          IsOfVision(std::string_view(name).substr(kPrefix.size()))) {
        continue;
      }
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
  // Of a module.
  struct Tensors {
    TensorView a;          // [rank, in]
    TensorView b;          // [out, rank]
    TensorView magnitude;  // [out] with DoRA

    // Of those outputs alone.
    Tensors Outputs(int64_t first, int64_t count) const {
      return {a, b.Rows(first, count),
              magnitude.shape.empty() ? magnitude : magnitude.Rows(first, count)};
    }
  };

  Status ReadModule(int64_t index, const LinearModule& linear, Layer* layer) {
    const LoraModule& lora = spec_.At(index, linear.first);
    const int64_t in = base_.InFeatures(linear);
    ASSIGN_OR_RETURN(const Tensors tensors, TakeModule(naming_.InLayer(index, linear.path),
                                                       lora.rank, in, base_.OutFeatures(linear)));
    int64_t first = 0;
    for (int64_t i = 0; i < linear.num_sites; ++i) {
      const Site site = linear.At(i);
      const int64_t out = base_.OutFeatures(site);
      ASSIGN_OR_RETURN((*layer)[static_cast<size_t>(site.index())],
                       MakePair(tensors.Outputs(first, out), lora,
                                kTextNaming.InLayer(index, site.Path()), {out, in}));
      first += out;
    }
    return OkStatus();
  }

  bool IsStacked(int64_t index, Site site) const {
    if (!site.is_of_expert()) return false;
    for (size_t s = 0; s < kStackedExperts.size(); ++s) {
      if (kStackedExperts[s].Has(site.projection())) {
        return spec_.stacked[static_cast<size_t>(index)][s];
      }
    }
    return false;
  }

  // PEFT's matrices of all experts: A [experts · rank, in], expert by expert, and B
  // [out, rank · experts], rank by rank. Where both of a layer are adapted, it has wrapped the
  // first of them before the other. Source: peft, tuners/lora/layer.py, ParamWrapper
  // (get_delta_weight).
  Status ReadStack(int64_t index, size_t s, Layer* layer) {
    const StackedExperts& stack = kStackedExperts[s];
    const bool is_inner = s == 0 && spec_.stacked[static_cast<size_t>(index)].back();
    const LoraModule& lora = spec_.At(index, stack.At(0, 0));
    const int64_t experts = base_.experts->count;
    const int64_t out = base_.OutFeatures(stack.first);
    std::string module = naming_.InLayer(index, stack.path.substr(0, stack.path.rfind('.')));
    if (is_inner) module += ".base_layer";
    RETURN_IF_ERROR(CheckNotTurned(module, base_.InFeatures(stack.first),
                                   stack.num_projections * out, experts * lora.rank));
    ASSIGN_OR_RETURN(const Tensors tensors,
                     TakeModule(module, experts * lora.rank, base_.InFeatures(stack.first),
                                stack.num_projections * out));
    for (int64_t expert = 0; expert < experts; ++expert) {
      for (int64_t i = 0; i < stack.num_projections; ++i) {
        (*layer)[static_cast<size_t>(stack.At(expert, i).index())] =
            LoraPair{.a = tensors.a.Rows(expert * lora.rank, lora.rank),
                     .b = tensors.b.Rows(i * out, out),
                     .b_first_col = expert,
                     .b_col_step = experts};
      }
    }
    return OkStatus();
  }

  // Versions of PEFT before 0.19.1 had A for what comes out of transformers' experts, and B for
  // what goes in: where both are as wide, only the version tells.
  Status CheckNotTurned(const std::string& module, int64_t in, int64_t out, int64_t ranks) const {
    const std::string name = FullName(module + ".lora_A.weight");
    const auto a = tensors_.find(name);
    if (a == tensors_.end() || a->second.shape != Shape{ranks, out}) return OkStatus();
    if (in == out && !spec_.stacks_may_be_turned) return OkStatus();
    return Unimplemented(StrCat("tensor ", name,
                                " has the outputs of the experts where their "
                                "inputs belong, as PEFT wrote it before 0.19.1; a file of a later "
                                "version is needed, which adapter_config.json names "
                                "(peft_version)"));
  }

  StatusOr<Tensors> TakeModule(const std::string& module, int64_t rank, int64_t in, int64_t out) {
    const bool is_embedding = module == naming_.Embedding();
    Tensors tensors;
    ASSIGN_OR_RETURN(
        tensors.a,
        Take(module + (is_embedding ? ".lora_embedding_A" : ".lora_A.weight"), {rank, in}));
    ASSIGN_OR_RETURN(
        tensors.b,
        Take(module + (is_embedding ? ".lora_embedding_B" : ".lora_B.weight"), {out, rank}));
    if (spec_.use_dora) {
      ASSIGN_OR_RETURN(tensors.magnitude, Take(module + ".lora_magnitude_vector", {out}));
    }
    return tensors;
  }

  // With DoRA's gains, if the base's weight, of that name and shape, is known.
  StatusOr<LoraPair> MakePair(const Tensors& tensors, const LoraModule& lora,
                              const std::string& base_module, const Shape& base_shape) const {
    LoraPair pair{.a = tensors.a, .b = tensors.b};
    if (!spec_.use_dora || weights_ == nullptr) return pair;
    ASSIGN_OR_RETURN(const WeightView weight, BaseMatrix(base_module, base_shape));
    const DoraModule dora{weight, pair.a, pair.b, tensors.magnitude, lora.scale};
    auto gains = base_module == kTextNaming.Embedding() ? DoraEmbeddingGains(dora, weights_->isa)
                                                        : DoraGains(dora, weights_->isa);
    if (!gains.ok()) return Annotate(gains.status(), base_module);
    pair.gains = *std::move(gains);
    return pair;
  }

  // `module` is where the file has the rows.
  StatusOr<std::optional<LoraPair>> MakeTokenPair(const std::string& module,
                                                  const std::string& base_module,
                                                  const std::vector<int32_t>& tokens) {
    ASSIGN_OR_RETURN(const TensorView rows, Take(module + ".token_adapter.trainable_tokens_delta",
                                                 {std::ssize(tokens), base_.hidden_size}));
    std::optional<WeightView> weight;
    if (weights_ != nullptr) {
      ASSIGN_OR_RETURN(weight, BaseMatrix(base_module, TableShape()));
    }
    const bool is_embedding = base_module == kTextNaming.Embedding();
    auto deltas = std::make_shared<const TokenDeltas>(rows, weight ? &*weight : nullptr, tokens,
                                                      base_.vocab_size, is_embedding);
    LoraPair pair{.a = deltas->a(), .b = deltas->b()};
    pair.tokens = std::move(deltas);
    return pair;
  }

  Shape TableShape() const { return {base_.vocab_size, base_.hidden_size}; }

  // A matrix [vocab, hidden] in place of the base model's. PEFT writes one if the config names the
  // module in modules_to_save, but also beside other adapted modules, as it was in training: then
  // it is the base's own most of the time, and left out.
  StatusOr<std::optional<TensorView>> Table(const std::string& module,
                                            const std::string& base_module, bool is_named) {
    const Shape shape = TableShape();
    for (const char* suffix : {".weight", ".base_layer.weight"}) {
      RETURN_IF_ERROR(CheckNotResized(FullName(module + suffix)));
    }
    if (is_named) {
      ASSIGN_OR_RETURN(TensorView table, Take(module + ".weight", shape));
      return table;
    }
    for (const char* suffix : {".weight", ".base_layer.weight"}) {
      const std::string name = FullName(module + suffix);
      if (!tensors_.contains(name)) continue;
      ASSIGN_OR_RETURN(TensorView table, Take(module + suffix, shape));
      if (weights_ == nullptr) return std::nullopt;  // nobody knows yet
      ASSIGN_OR_RETURN(const WeightView weight, BaseMatrix(base_module, shape));
      if (HaveEqualValues(table, weight)) return std::nullopt;
      if (base_.tie_word_embeddings && base_.has_lm_head) {
        return Unimplemented(StrCat(
            "tensor ", name,
            " would change both the embedding and lm_head, which are one matrix "
            "in this base model; supported is one that the config names in modules_to_save"));
      }
      return table;
    }
    return std::nullopt;
  }

  // As it is where tokens were added behind the base model's.
  Status CheckNotResized(const std::string& name) const {
    const auto table = tensors_.find(name);
    if (table == tensors_.end()) return OkStatus();
    const Shape& shape = table->second.shape;
    if (shape.size() != 2 || shape[1] != base_.hidden_size || shape[0] == base_.vocab_size) {
      return OkStatus();
    }
    return Unimplemented(StrCat("tensor ", name, " has shape ", ToString(shape),
                                ", and the base model a vocabulary of ", base_.vocab_size,
                                ": one that was resized for an adapter (resize_token_embeddings) "
                                "is not supported"));
  }

  static std::string FullName(const std::string& name) { return StrCat(kPrefix, name); }

  StatusOr<TensorView> Take(const std::string& short_name, const Shape& shape) {
    const std::string name = FullName(short_name);
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      return InvalidArgument(StrCat("tensor ", name,
                                    " is missing, although adapter_config.json (target_modules, "
                                    "target_parameters, modules_to_save, "
                                    "trainable_token_indices, use_dora) asks for it"));
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

  StatusOr<WeightView> BaseMatrix(const std::string& module, const Shape& shape) const {
    const bool is_tied = module == kTextNaming.lm_head && base_.tie_word_embeddings;
    return weights_->checkpoint->GetMatrix((is_tied ? kTextNaming.Embedding() : module) + ".weight",
                                           shape);
  }

  const TensorMap& tensors_;
  const ModuleNaming& naming_;
  const ModelSpec& base_;
  const LoraSpec& spec_;
  const Values values_;
  const BaseWeights* weights_;  // null: not known
  const std::vector<LinearModule> modules_;
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
  ASSIGN_OR_RETURN(const LoraConfig config, LoadLoraConfig(dir));
  ASSIGN_OR_RETURN(SafetensorsFile file, OpenWeights(dir));
  Adapter adapter;
  adapter.file_ = std::move(file);
  ModuleNaming naming = FindModuleNaming(adapter.file_.tensors(), kPrefix);
  if (!base.experts) naming.experts = kTextNaming.experts;
  auto spec = Resolve(config, base, naming, max_rank);
  if (!spec.ok()) return Annotate(spec.status(), dir.PathOf("adapter_config.json"));
  adapter.spec_ = *std::move(spec);
  ClassifierSpec classifier;
  if (config.is_classifier) {
    ASSIGN_OR_RETURN(classifier, LoadClassifierSpec(dir, base));
  }
  const Status read = adapter.Read(naming, base, values, weights, std::move(classifier));
  // Not what zeros in the place of lost bytes look like.
  RETURN_IF_ERROR(Annotate(adapter.CheckIntact(), dir.PathOf(kWeights)));
  if (!read.ok()) return Annotate(read, dir.PathOf(kWeights));
  return adapter;
}

Status Adapter::Read(const ModuleNaming& naming, const ModelSpec& base, Values values,
                     const BaseWeights* weights, ClassifierSpec classifier) {
  Reader reader(file_.tensors(), naming, base, spec_, values, weights);
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    ASSIGN_OR_RETURN(layers_.emplace_back(), reader.ReadLayer(layer));
  }
  ASSIGN_OR_RETURN(embedding_, reader.Embedding());
  ASSIGN_OR_RETURN(lm_head_, reader.LmHead());
  ASSIGN_OR_RETURN(embedding_table_, reader.EmbeddingTable());
  ASSIGN_OR_RETURN(lm_head_table_, reader.LmHeadTable());
  ASSIGN_OR_RETURN(class_head_, reader.Head(std::move(classifier)));
  spec_.replaces_embedding = embedding_table_.has_value();
  spec_.replaces_lm_head = lm_head_table_.has_value();
  if (!spec_.invocation_tokens.empty() && (embedding_table_ || lm_head_table_)) {
    return Unimplemented(
        "\"alora_invocation_tokens\" together with an embedding or an lm_head of the adapter's "
        "own, which would apply to all tokens, is not supported");
  }
  // The differences would be from the adapter's own matrix.
  if ((!spec_.token_rows.embedding.empty() && embedding_table_) ||
      (!spec_.token_rows.lm_head.empty() && lm_head_table_)) {
    return Unimplemented(
        "\"trainable_token_indices\" of an embedding or lm_head that the file has whole, "
        "other than the base model's, is not supported");
  }
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

const LoraPair* Adapter::Find(int64_t layer, Site site) const {
  const Layer& pairs = layers_[static_cast<size_t>(layer)];
  const auto index = static_cast<size_t>(site.index());
  return index < pairs.size() && pairs[index] ? &*pairs[index] : nullptr;
}

int64_t Adapter::held_bytes() const {
  constexpr size_t kPerTensor = 256;  // its name, its view and their node
  size_t bytes = file_.bytes().size() + file_.tensors().size() * kPerTensor;
  for (const Layer& layer : layers_) {
    bytes += layer.size() * (sizeof(LoraModule) + sizeof(Layer::value_type));
    for (const std::optional<LoraPair>& pair : layer) {
      if (pair) bytes += pair->gains.size() * sizeof(float);
    }
  }
  int64_t other = class_head_ ? class_head_->size_bytes() : 0;
  for (const LoraPair* const pair : {embedding(), lm_head()}) {
    if (pair != nullptr && pair->tokens != nullptr) other += pair->tokens->size_bytes();
  }
  return static_cast<int64_t>(bytes) + other;
}

}  // namespace aril
