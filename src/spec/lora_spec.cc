// Source: peft, tuners/tuners_utils.py (_inject_parameters).

#include "spec/lora_spec.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "base/json.h"
#include "base/strings.h"
#include "spec/lora_rules.h"

namespace aril {
namespace {

using internal::LoraModuleRules;
using internal::ModuleMatcher;
using internal::TargetRules;

// The first version of PEFT whose matrices of all experts have inputs and outputs where a linear
// module has them (NVIDIA NeMo Automodel, pull request 3626).
constexpr std::array kFirstWithStacks = {0, 19, 1};
// Of what a stranger's file brings into a message.
constexpr size_t kMaxShownName = 100;
constexpr size_t kMaxShownNames = 8;

// Modules that PEFT cannot adapt, and refuses when they are named: in the decoder, and in a layer.
constexpr std::string_view kNotLinear[] = {"", "layers", "norm", "rotary_emb"};
constexpr std::string_view kNotLinearInLayers[] = {"", ".self_attn", ".mlp", ".input_layernorm",
                                                   ".post_attention_layernorm"};
constexpr std::string_view kQkNorms[] = {".self_attn.q_norm", ".self_attn.k_norm"};
constexpr std::string_view kOutputNorms[] = {".pre_feedforward_layernorm",
                                             ".post_feedforward_layernorm"};
constexpr std::string_view kActivation[] = {".mlp.act_fn"};
constexpr std::string_view kOfExperts[] = {".mlp.experts", ".mlp.experts.act_fn"};  // parameters
constexpr std::string_view kOfGptOss[] = {".mlp.experts", ".mlp.router"};
constexpr std::string_view kOfDelta[] = {".linear_attn", ".linear_attn.conv1d",
                                         ".linear_attn.norm"};
constexpr std::string_view kOfPhi3[] = {".mlp.activation_fn", ".resid_attn_dropout",
                                        ".resid_mlp_dropout"};

std::vector<std::string_view> NotLinearInLayers(const ModelSpec& base, const ModuleNaming& naming) {
  std::vector<std::string_view> modules(std::begin(kNotLinearInLayers),
                                        std::end(kNotLinearInLayers));
  const auto add = [&](std::span<const std::string_view> more) {
    modules.insert(modules.end(), more.begin(), more.end());
  };
  if (base.experts) {
    // Where each expert has modules, their list may be named, too, for vLLM's sake (OpenPipe ART,
    // pull request 688): beside them it means nothing.
    if (naming.experts == ExpertsNaming::kParameters) add(kOfExperts);
    if (naming.experts == ExpertsNaming::kGptOss) add(kOfGptOss);
  } else {
    add(base.fused_modules ? std::span<const std::string_view>(kOfPhi3) : kActivation);
  }
  if (base.qk_norm) add(kQkNorms);
  if (base.output_norms) add(kOutputNorms);
  if (base.linear_attention) add(kOfDelta);
  return modules;
}

std::string Quoted(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kMaxShownNames) {
      shown.push_back(StrCat("and ", names.size() - kMaxShownNames, " more"));
      break;
    }
    shown.push_back(JsonQuote(name.substr(0, kMaxShownName)));
  }
  return Join(shown, ", ");
}

// Whether it is a module under a naming, and not a parameter, or a part of one.
bool IsModule(const LinearModule& linear, const ModuleNaming& naming) {
  return !naming.has_experts_as_parameters() ||
         !(linear.first.is_router() || linear.first.is_of_expert());
}

// The modules outside of the layers.
std::vector<std::string> OthersOf(const ModuleNaming& naming) {
  if (naming.lm_head.empty()) return {naming.Embedding()};
  return {naming.Embedding(), std::string(naming.lm_head)};
}

std::string Example(const ModelSpec& base, const ModuleNaming& naming) {
  return naming.InLayer(0, base.LinearModules(0).front().path);
}

std::string Supported(const ModelSpec& base, const ModuleNaming& naming) {
  std::vector<std::string> names;
  for (const int64_t layer : base.LayersOfEachKind()) {
    for (const LinearModule& module : base.LinearModules(layer)) {
      if (!IsModule(module, naming)) break;
      const std::string path = naming.InLayer(layer, module.path);
      std::string name = path.substr(path.rfind('.') + 1);
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
      // All others' modules have the same names.
      if (module.first == Site::OfExpert(0, Projection::kDown)) break;
    }
  }
  return StrCat(Join(names, ", "), ", e.g. ", Example(base, naming), ", ",
                Join(OthersOf(naming), " and "));
}

std::string SupportedParameters(const ModelSpec& base, const ModuleNaming& naming) {
  std::string linear = Example(base, naming) + ".weight";
  if (!base.experts) return linear;
  std::string router = StrCat(linear, ", ", naming.InLayer(0, Site::Router().Path()), ".weight");
  if (naming.experts == ExpertsNaming::kMixtralModules) return router;
  return StrCat(router, ", ", naming.InLayer(0, kStackedExperts[0].path), " and ",
                naming.InLayer(0, kStackedExperts[1].path));
}

// PEFT refuses names of which none matches anything. It leaves alone some that do not.
Status CheckFound(const LoraConfig& config, size_t num_unmatched_modules,
                  size_t num_unmatched_parameters, const ModelSpec& base,
                  const ModuleNaming& naming) {
  const std::vector<std::string>& modules = config.target_modules.names;
  const std::vector<std::string>& parameters = config.target_parameters;
  if (num_unmatched_parameters < parameters.size()) return OkStatus();
  if (!modules.empty()) {
    if (num_unmatched_modules < modules.size()) return OkStatus();
    return InvalidArgument(StrCat("\"target_modules\" names ", Quoted(modules),
                                  ", which no module of this base model is called; it has ",
                                  Supported(base, naming)));
  }
  const bool has_others = config.all_linear || config.target_modules.regex.has_value();
  if (!parameters.empty() && !has_others) {
    return InvalidArgument(StrCat("\"target_parameters\" names ", Quoted(parameters),
                                  ", which no matrix in this base model's layers is called; it has "
                                  "e.g. ",
                                  SupportedParameters(base, naming)));
  }
  return OkStatus();
}

// Of a list in target_modules, PEFT refuses the name of a module that it cannot adapt.
Status CheckLinear(const std::vector<std::string>& names, const ModelSpec& base,
                   const ModuleNaming& naming) {
  if (names.empty()) return OkStatus();
  ASSIGN_OR_RETURN(ModuleMatcher matcher, ModuleMatcher::Make({.names = names}, "target_modules"));
  const auto check = [&](const std::string& module) {
    if (matcher.Find(module) == ModuleMatcher::Match::kNone) return OkStatus();
    return InvalidArgument(StrCat("\"target_modules\" names ", module,
                                  ", which is not linear; supported are ",
                                  Supported(base, naming)));
  };
  for (const std::string_view module : kNotLinear) {
    RETURN_IF_ERROR(check(naming.InDecoder(module)));
  }
  const std::vector<std::string_view> in_layers = NotLinearInLayers(base, naming);
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    for (const std::string_view module : in_layers) {
      RETURN_IF_ERROR(check(naming.Layer(layer) + std::string(module)));
    }
  }
  return OkStatus();
}

// Whether "0.18.1", "0.19.0.dev0", … is before a version; so is what is none.
bool IsBefore(std::string_view version, const std::array<int, 3>& other) {
  std::array<int, 3> parts = {};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (int& part : parts) {
    const auto [next, error] = std::from_chars(at, end, part);
    if (error != std::errc()) break;
    at = next != end && *next == '.' ? next + 1 : next;
  }
  return parts < other;
}

// The modules of the layers, and what the configuration targets of them.
class LayerResolver {
 public:
  // All must outlive it; results are in `spec`.
  LayerResolver(const ModelSpec& base, const ModuleNaming& naming, const LoraModuleRules& table,
                TargetRules& targets, ModuleMatcher& parameters, LoraSpec& spec)
      : base_(base),
        naming_(naming),
        table_(table),
        targets_(targets),
        parameters_(parameters),
        spec_(spec) {}

  Status Resolve() {
    spec_.layers.resize(static_cast<size_t>(base_.num_layers));
    spec_.stacked.resize(static_cast<size_t>(base_.num_layers));
    const LayerModules modules(base_);
    for (int64_t layer = 0; layer < base_.num_layers; ++layer) {
      for (const LinearModule& linear : modules[layer]) {
        RETURN_IF_ERROR(ResolveModule(layer, linear));
      }
      if (base_.experts) RETURN_IF_ERROR(ResolveStacks(layer));
    }
    return OkStatus();
  }

 private:
  // A module may be targeted as such, or as its parameter: then as PEFT does it, whatever
  // "exclude_modules" and "layers_to_transform" say.
  Status ResolveModule(int64_t layer, const LinearModule& linear) {
    const bool is_module = IsModule(linear, naming_);
    if (!is_module && linear.first.is_of_expert()) return OkStatus();  // a part of a parameter
    const std::string name = naming_.InLayer(layer, linear.path);
    const std::string parameter = name + ".weight";
    const bool by_module = is_module && targets_.Targets(layer, name);
    const bool by_parameter =
        !parameters_.empty() && parameters_.Find(parameter) != ModuleMatcher::Match::kNone;
    if (by_module && by_parameter) return NamedTwice(name);
    if (!by_module && !by_parameter) return OkStatus();
    ASSIGN_OR_RETURN(const LoraModule module, table_.Find(by_module ? name : parameter));
    for (int64_t i = 0; i < linear.num_sites; ++i) At(layer, linear.At(i)) = module;
    return OkStatus();
  }

  Status ResolveStacks(int64_t layer) {
    if (naming_.experts == ExpertsNaming::kMixtralModules) return OkStatus();  // has none
    for (size_t s = 0; s < kStackedExperts.size(); ++s) {
      const StackedExperts& stack = kStackedExperts[s];
      const std::string name = naming_.InLayer(layer, stack.path);
      if (parameters_.Find(name) == ModuleMatcher::Match::kNone) continue;
      ASSIGN_OR_RETURN(const LoraModule module, table_.Find(name));
      spec_.stacked[static_cast<size_t>(layer)][s] = true;
      for (int64_t expert = 0; expert < base_.experts->count; ++expert) {
        for (int64_t i = 0; i < stack.num_projections; ++i) {
          LoraModule& site = At(layer, stack.At(expert, i));
          if (site.rank > 0) return NamedTwice(name);
          site = module;
        }
      }
    }
    return OkStatus();
  }

  // As in PEFT.
  static Status NamedTwice(const std::string& name) {
    return InvalidArgument(StrCat("\"target_modules\" and \"target_parameters\" both name ", name,
                                  ", or a part of it"));
  }

  LoraModule& At(int64_t layer, Site site) {
    std::vector<LoraModule>& modules = spec_.layers[static_cast<size_t>(layer)];
    const auto count = static_cast<size_t>(site.CountUpTo());
    if (modules.size() < count) modules.resize(count);
    return modules[static_cast<size_t>(site.index())];
  }

  const ModelSpec& base_;
  const ModuleNaming& naming_;
  const LoraModuleRules& table_;
  TargetRules& targets_;
  ModuleMatcher& parameters_;
  LoraSpec& spec_;
};

// Rows of the embedding, and of lm_head. (PEFT refuses a module that is adapted as well.)
Status ResolveRows(const LoraConfig& config, const ModelSpec& base, const ModuleNaming& naming,
                   LoraSpec* spec) {
  ASSIGN_OR_RETURN(spec->token_rows, ResolveTokenRows(config.token_rows, base, naming));
  for (const auto& [tokens, module] : {std::pair(&spec->token_rows.embedding, &spec->embedding),
                                       std::pair(&spec->token_rows.lm_head, &spec->lm_head)}) {
    if (tokens->empty()) continue;
    if (module->rank > 0) {
      return InvalidArgument(
          "\"target_modules\" and \"trainable_token_indices\" name the same module (as in PEFT)");
    }
    *module = {.rank = std::ssize(*tokens), .scale = 1};
  }
  return OkStatus();
}

// PEFT would have lm_head follow the embedding, which only rows of tokens do here.
Status CheckTying(const LoraConfig& config, const ModelSpec& base, const LoraSpec& spec) {
  const bool is_tied = base.tie_word_embeddings && base.has_lm_head;
  if (!config.ensure_weight_tying || !is_tied) return OkStatus();
  const bool has_rows = !spec.token_rows.empty();
  const bool adapts = !has_rows && (spec.embedding.rank > 0 || spec.lm_head.rank > 0);
  const bool has_others = has_rows && !spec.token_rows.lm_head_has_the_embeddings;
  if (!adapts && !has_others && !spec.replaces_embedding && !spec.replaces_lm_head) {
    return OkStatus();
  }
  return Unimplemented(
      "\"ensure_weight_tying\" is true, and the adapter changes the embedding or lm_head, "
      "which are one matrix here: that is supported of the same \"trainable_token_indices\" only");
}

// The modules outside of the layers: PEFT adapts them when they are named.
Status ResolveOthers(const LoraConfig& config, const ModelSpec& base, const ModuleNaming& naming,
                     const LoraModuleRules& modules, TargetRules& targets, LoraSpec* spec) {
  const std::string embedding = naming.Embedding(), lm_head(naming.lm_head);
  const std::pair<const std::string&, LoraModule*> others[] = {{embedding, &spec->embedding},
                                                               {lm_head, &spec->lm_head}};
  for (const auto& [name, module] : others) {
    if (name.empty() || !targets.TargetsOther(name)) continue;
    ASSIGN_OR_RETURN(*module, modules.Find(name));
  }
  RETURN_IF_ERROR(ResolveRows(config, base, naming, spec));
  // A row of the embedding's A is as long as the rank, and has to fit where rows of the layers do.
  if (spec->embedding.rank > base.hidden_size) {
    return InvalidArgument(StrCat("the rank of ", embedding, " is ", spec->embedding.rank,
                                  ", more than the base model's hidden_size of ",
                                  base.hidden_size));
  }
  for (const std::string& saved : config.modules_to_save) {
    if (naming.is_multimodal() && IsOfVision(saved)) continue;
    const auto is = [&](std::string_view module) {
      return !module.empty() && (module == saved || module.ends_with("." + saved));
    };
    // PEFT names its head in every classifier, and "classifier", which encoders have.
    if (config.is_classifier && (is(kClassHeadModule) || saved == "classifier")) continue;
    if (!is(embedding) && !is(lm_head)) {
      return Unimplemented(StrCat("\"modules_to_save\" names ",
                                  JsonQuote(saved.substr(0, kMaxShownName)), "; supported are ",
                                  Join(OthersOf(naming), " and ")));
    }
    (is(embedding) ? spec->replaces_embedding : spec->replaces_lm_head) = true;
  }
  if (!base.has_lm_head && (spec->replaces_lm_head || spec->lm_head.rank > 0)) {
    return InvalidArgument(
        StrCat("it adapts or replaces ", lm_head, ", which this base model has not"));
  }
  if ((spec->replaces_embedding && spec->embedding.rank > 0) ||
      (spec->replaces_lm_head && spec->lm_head.rank > 0)) {
    return InvalidArgument(
        "two of \"target_modules\", \"modules_to_save\" and \"trainable_token_indices\" name the "
        "same module: it is adapted, or replaced, or has rows of its own");
  }
  return CheckTying(config, base, *spec);
}

// An activated LoRA changes linear modules that see rows of a sequence: PEFT refuses embeddings,
// and fails on experts and their routers, whose rows are of all sequences.
Status CheckInvocation(const LoraSpec& spec, const ModelSpec& base) {
  if (spec.invocation_tokens.empty()) return OkStatus();
  for (const int32_t token : spec.invocation_tokens) {
    if (token < base.vocab_size) continue;
    return InvalidArgument(StrCat("\"alora_invocation_tokens\" has token ", token,
                                  ", and the vocabulary ", base.vocab_size, " tokens"));
  }
  if (spec.embedding.rank > 0) {
    return Unimplemented(
        "\"alora_invocation_tokens\" is given, and \"target_modules\" names the embedding, which "
        "cannot be activated within a sequence (as in PEFT)");
  }
  const LayerModules modules(base);
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    for (const LinearModule& module : modules[layer]) {
      const bool is_of_mixture = module.first.is_of_expert() || module.first.is_router();
      if (!is_of_mixture || spec.At(layer, module.first).rank == 0) continue;
      return Unimplemented(
          "\"alora_invocation_tokens\" is given, and \"target_modules\" names experts or their "
          "router, which cannot be activated within a sequence (as in PEFT)");
    }
  }
  return OkStatus();
}

}  // namespace

int64_t LoraSpec::MaxRank() const {
  int64_t max = std::max(embedding.rank, lm_head.rank);
  for (const auto& layer : layers) {
    for (const LoraModule& module : layer) max = std::max(max, module.rank);
  }
  return max;
}

std::optional<int64_t> LoraSpec::FirstToken(std::span<const int32_t> prompt) const {
  return FindInvocation(invocation_tokens, prompt);
}

// Knuth's, Morris' and Pratt's search: linear, whatever a tenant's adapter and prompt repeat.
std::optional<int64_t> FindInvocation(std::span<const int32_t> invocation_tokens,
                                      std::span<const int32_t> prompt) {
  const std::span<const int32_t> sought = invocation_tokens;
  if (sought.empty()) return 0;
  // Of each beginning, how long the longest is that it ends with, itself left out.
  std::vector<size_t> borders(sought.size());
  const auto extend = [&](size_t matched, int32_t token) {
    while (matched > 0 && sought[matched] != token) matched = borders[matched - 1];
    return matched + (sought[matched] == token ? 1 : 0);
  };
  for (size_t i = 1; i < sought.size(); ++i) borders[i] = extend(borders[i - 1], sought[i]);
  std::optional<int64_t> last;
  size_t matched = 0;
  for (size_t i = 0; i < prompt.size(); ++i) {
    matched = extend(matched, prompt[i]);
    if (matched < sought.size()) continue;
    last = static_cast<int64_t>(i + 1 - matched);
    matched = borders[matched - 1];
  }
  return last;
}

StatusOr<LoraSpec> ResolveLora(const LoraConfig& config, const ModelSpec& base,
                               const ModuleNaming& naming) {
  const auto num_modules = static_cast<size_t>(base.num_layers * base.num_sites());
  ASSIGN_OR_RETURN(TargetRules targets, TargetRules::Make(config, num_modules));
  ASSIGN_OR_RETURN(ModuleMatcher parameters,
                   ModuleMatcher::Make({.names = config.target_parameters}, "target_parameters"));
  ASSIGN_OR_RETURN(const LoraModuleRules modules, LoraModuleRules::Make(config, num_modules));
  LoraSpec spec{.vocab_size = base.vocab_size,
                .use_dora = config.use_dora,
                .is_classifier = config.is_classifier,
                .invocation_tokens = config.invocation_tokens};
  spec.stacks_may_be_turned = IsBefore(config.peft_version, kFirstWithStacks);
  RETURN_IF_ERROR(LayerResolver(base, naming, modules, targets, parameters, spec).Resolve());
  RETURN_IF_ERROR(ResolveOthers(config, base, naming, modules, targets, &spec));
  ASSIGN_OR_RETURN(std::vector<std::string> unmatched, targets.Unmatched());
  const std::vector<std::string> parameters_in_vain = parameters.Unmatched();
  RETURN_IF_ERROR(CheckFound(config, unmatched.size(), parameters_in_vain.size(), base, naming));
  RETURN_IF_ERROR(CheckLinear(config.target_modules.names, base, naming));
  RETURN_IF_ERROR(CheckInvocation(spec, base));
  unmatched.insert(unmatched.end(), parameters_in_vain.begin(), parameters_in_vain.end());
  spec.unmatched_targets = Quoted(unmatched);
  if (spec.MaxRank() == 0 && !spec.replaces_embedding && !spec.replaces_lm_head) {
    return InvalidArgument(
        "\"target_modules\", \"exclude_modules\" and \"layers_to_transform\" together choose "
        "no module of this base model");
  }
  return spec;
}

}  // namespace aril
