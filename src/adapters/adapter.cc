#include "adapters/adapter.h"

#include <algorithm>
#include <utility>

#include "adapters/adapter_tensors.h"
#include "adapters/outer_reader.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr const char* kWeights = "adapter_model.safetensors";

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

// Reads the layers.
class LayerReader {
 public:
  // All must outlive it.
  LayerReader(AdapterTensors& tensors, const ModelSpec& base, const LoraSpec& spec)
      : tensors_(tensors), base_(base), spec_(spec), modules_(base) {}

  // The pairs of a layer's sites that are targeted.
  StatusOr<LoraLayer> ReadLayer(int64_t index) {
    LoraLayer layer(spec_.layers[static_cast<size_t>(index)].size());
    for (const LinearModule& linear : modules_[index]) {
      if (spec_.At(index, linear.first).rank == 0 || IsStacked(index, linear.first)) continue;
      RETURN_IF_ERROR(ReadModule(index, linear, &layer));
    }
    for (size_t s = 0; s < kStackedExperts.size(); ++s) {
      if (!spec_.stacked[static_cast<size_t>(index)][s]) continue;
      RETURN_IF_ERROR(ReadStack(index, s, &layer));
    }
    return layer;
  }

 private:
  Status ReadModule(int64_t index, const LinearModule& linear, LoraLayer* layer) {
    const LoraModule& lora = spec_.At(index, linear.first);
    const int64_t in = base_.InFeatures(linear);
    ASSIGN_OR_RETURN(const LoraTensors tensors,
                     tensors_.TakeModule(tensors_.naming().InLayer(index, linear.path), lora.rank,
                                         in, base_.OutFeatures(linear)));
    int64_t first = 0;
    for (int64_t i = 0; i < linear.num_sites; ++i) {
      const Site site = linear.At(i);
      const int64_t out = base_.OutFeatures(site);
      ASSIGN_OR_RETURN((*layer)[static_cast<size_t>(site.index())],
                       tensors_.MakePair(tensors.Outputs(first, out), lora,
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
  Status ReadStack(int64_t index, size_t s, LoraLayer* layer) {
    const StackedExperts& stack = kStackedExperts[s];
    const bool is_inner = s == 0 && spec_.stacked[static_cast<size_t>(index)].back();
    const LoraModule& lora = spec_.At(index, stack.At(0, 0));
    const int64_t experts = base_.experts->count;
    const int64_t out = base_.OutFeatures(stack.first);
    std::string module =
        tensors_.naming().InLayer(index, stack.path.substr(0, stack.path.rfind('.')));
    if (is_inner) module += ".base_layer";
    RETURN_IF_ERROR(CheckNotTurned(module, base_.InFeatures(stack.first),
                                   stack.num_projections * out, experts * lora.rank));
    ASSIGN_OR_RETURN(const LoraTensors tensors,
                     tensors_.TakeModule(module, experts * lora.rank, base_.InFeatures(stack.first),
                                         stack.num_projections * out));
    const int64_t cols = experts * lora.rank;  // of B
    for (int64_t expert = 0; expert < experts; ++expert) {
      for (int64_t i = 0; i < stack.num_projections; ++i) {
        LoraPair pair{.a = tensors.a.Rows(expert * lora.rank, lora.rank),
                      .b_first_col = expert,
                      .b_col_step = experts};
        if (base_.experts->is_gpt_oss) {
          // Outputs of gate and up take turns: two rows of B are read as one that is twice as long,
          // of which the second half is up's.
          pair.b = {tensors.b.data, tensors.b.dtype, {out, stack.num_projections * cols}};
          pair.b_first_col += i * cols;
        } else {
          pair.b = tensors.b.Rows(i * out, out);
        }
        (*layer)[static_cast<size_t>(stack.At(expert, i).index())] = std::move(pair);
      }
    }
    return OkStatus();
  }

  // Versions of PEFT before 0.19.1 had A for what comes out of transformers' experts, and B for
  // what goes in: where both are as wide, only the version tells.
  // Of gpt-oss, whose tensor has inputs first, versions since then did if transformers did not say
  // so (is_transposed).
  Status CheckNotTurned(const std::string& module, int64_t in, int64_t out, int64_t ranks) const {
    const std::string name = module + ".lora_A.weight";
    const TensorView* const a = tensors_.Find(name);
    if (a == nullptr || a->shape != Shape{ranks, out}) return OkStatus();
    if (base_.experts->is_gpt_oss) {
      // Where a file has both stacks, the other one's shape tells.
      const bool may_be_turned = !spec_.stacks_may_be_turned && !AdaptsGateUp();
      if (in == out && !may_be_turned) return OkStatus();
      return Unimplemented(
          StrCat("tensor ", AdapterTensors::FullName(name), in == out ? " may have" : " has",
                 " the outputs of the experts where their inputs belong, as PEFT writes it since "
                 "0.19.1 beside a version of transformers whose GptOssExperts has no "
                 "is_transposed; a file that was written beside a later one is needed",
                 in == out ? ", and that has experts' gate_up_proj, which tells, too" : ""));
    }
    if (in == out && !spec_.stacks_may_be_turned) return OkStatus();
    return Unimplemented(StrCat("tensor ", AdapterTensors::FullName(name),
                                " has the outputs of the experts where their "
                                "inputs belong, as PEFT wrote it before 0.19.1; a file of a later "
                                "version is needed, which adapter_config.json names "
                                "(peft_version)"));
  }

  // In any layer, as a part of all experts' tensor.
  bool AdaptsGateUp() const {
    return std::ranges::any_of(spec_.stacked, [](const auto& stacks) { return stacks.front(); });
  }

  AdapterTensors& tensors_;
  const ModelSpec& base_;
  const LoraSpec& spec_;
  const LayerModules modules_;
};

// The head of a classifier; as many labels as its file has.
StatusOr<ClassHead> ReadClassHead(AdapterTensors& tensors, int64_t hidden_size,
                                  ClassifierSpec classifier) {
  const std::string module = StrCat(kClassHeadModule, ".weight");
  const TensorView* const found = tensors.Find(module);
  if (found == nullptr || found->shape.empty()) {
    return InvalidArgument(StrCat("tensor ", AdapterTensors::FullName(module),
                                  " is missing or a scalar: \"task_type\" is \"SEQ_CLS\", and "
                                  "the head of such an adapter is that"));
  }
  const int64_t num_labels = found->shape[0];
  if (num_labels < 1 || num_labels > kMaxClassLabels) {
    return InvalidArgument(StrCat("tensor ", AdapterTensors::FullName(module), " has ", num_labels,
                                  " labels; there may be 1 to ", kMaxClassLabels));
  }
  ASSIGN_OR_RETURN(const TensorView weight, tensors.Take(module, {num_labels, hidden_size}));
  return ClassHead(weight, std::move(classifier));
}

}  // namespace

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
  const TensorMap& tensors = adapter.file_.tensors();
  const ModuleNaming naming = FindModuleNaming(tensors, AdapterTensors::kPrefix, base);
  const auto vocab_size = FindVocabSize(tensors, naming, base);
  if (!vocab_size.ok()) return Annotate(vocab_size.status(), dir.PathOf(kWeights));
  ModelSpec resized = base;
  resized.vocab_size = *vocab_size;
  auto spec = Resolve(config, resized, naming, max_rank);
  if (!spec.ok()) return Annotate(spec.status(), dir.PathOf("adapter_config.json"));
  adapter.spec_ = *std::move(spec);
  ClassifierSpec classifier;
  if (config.is_classifier) {
    ASSIGN_OR_RETURN(classifier, LoadClassifierSpec(dir, resized));
  }
  AdapterTensors reader(tensors, naming, base, adapter.spec_, values, weights);
  const Status read = adapter.Read(reader, resized, base.vocab_size, std::move(classifier));
  // Not what zeros in the place of lost bytes look like.
  RETURN_IF_ERROR(Annotate(adapter.CheckIntact(), dir.PathOf(kWeights)));
  if (!read.ok()) return Annotate(read, dir.PathOf(kWeights));
  return adapter;
}

Status Adapter::Read(AdapterTensors& tensors, const ModelSpec& base, int64_t base_vocab,
                     ClassifierSpec classifier) {
  LayerReader layers(tensors, base, spec_);
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    ASSIGN_OR_RETURN(layers_.emplace_back(), layers.ReadLayer(layer));
  }
  ASSIGN_OR_RETURN(outer_, ReadOuter(tensors, base, base_vocab, &spec_));
  if (spec_.is_classifier) {
    ASSIGN_OR_RETURN(class_head_, ReadClassHead(tensors, base.hidden_size, std::move(classifier)));
  }
  const bool is_resized = base.vocab_size != base_vocab;
  if (!spec_.invocation_tokens.empty() &&
      (is_resized || spec_.brings_embedding() || spec_.brings_lm_head())) {
    return Unimplemented(
        "\"alora_invocation_tokens\" together with an embedding or an lm_head of the adapter's "
        "own, or rows of one, which would apply to all tokens, is not supported");
  }
  // Their lengths would be those of the adapter's own matrix.
  if (spec_.use_dora && outer_.lm_head && outer_.lm_head_table) {
    return Unimplemented("DoRA on an lm_head of the adapter's own is not supported");
  }
  if (spec_.use_dora && outer_.embedding && outer_.embedding_table) {
    return Unimplemented("DoRA on an embedding of the adapter's own is not supported");
  }
  return tensors.CheckAllTaken();
}

Status Adapter::CheckIntact() const {
  return file_.is_intact() ? OkStatus() : InvalidArgument("the file has been truncated");
}

const LoraPair* Adapter::Find(int64_t layer, Site site) const {
  const LoraLayer& pairs = layers_[static_cast<size_t>(layer)];
  const auto index = static_cast<size_t>(site.index());
  return index < pairs.size() && pairs[index] ? &*pairs[index] : nullptr;
}

int64_t Adapter::held_bytes() const {
  constexpr size_t kPerTensor = 256;  // its name, its view and their node
  size_t bytes = file_.bytes().size() + file_.tensors().size() * kPerTensor;
  for (const LoraLayer& layer : layers_) {
    bytes += layer.size() * (sizeof(LoraModule) + sizeof(LoraLayer::value_type));
    for (const std::optional<LoraPair>& pair : layer) {
      if (pair) bytes += pair->gains.size() * sizeof(float);
    }
  }
  int64_t other = class_head_ ? class_head_->size_bytes() : 0;
  for (const LoraPair* const pair : {embedding(), lm_head()}) {
    if (pair != nullptr && pair->tokens != nullptr) other += pair->tokens->size_bytes();
  }
  return static_cast<int64_t>(bytes) + other - outer_.unused_bytes;
}

}  // namespace aril
