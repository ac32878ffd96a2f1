#include "apps/adapter_inspect.h"

#include <iomanip>
#include <map>
#include <utility>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/resident_adapter.h"
#include "base/json.h"
#include "base/strings.h"
#include "model/pool_layout.h"
#include "model/weights.h"
#include "spec/base_checkpoint.h"
#include "spec/lora_config.h"
#include "spec/lora_spec.h"
#include "tensor/safetensors.h"
#include "tokenizer/tokenizer_changes.h"
#include "tokenizer/tokenizer_folder.h"

namespace aril {
namespace {

// One line of the report: a name, then what is known.
class Report {
 public:
  explicit Report(std::ostream& out) : out_(out) {}

  template <typename... Args>
  void Line(const char* name, const Args&... args) {
    out_ << std::left << std::setw(kNameWidth) << name << StrCat(args...) << '\n';
  }

 private:
  static constexpr int kNameWidth = 12;
  std::ostream& out_;
};

std::string ShowBytes(int64_t bytes) {
  constexpr double kMiB = 1 << 20;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / kMiB << " MiB";
  return text.str();
}

std::string ShowNames(const ModuleSelection& names) {
  return names.regex.has_value() ? "modules that match " + *names.regex : Join(names.names, ", ");
}

template <typename T>
std::string ShowPattern(const LoraConfig::Pattern<T>& pattern) {
  std::vector<std::string> entries;
  for (const auto& [key, value] : pattern) entries.push_back(StrCat(key, ": ", value));
  return Join(entries, ", ");
}

void DescribeConfig(const LoraConfig& config, Report& report) {
  report.Line("kind", "LoRA, rank ", config.rank, ", lora_alpha ", config.lora_alpha,
              config.use_rslora ? ", rsLoRA" : "");
  if (config.all_linear) {
    report.Line("targets", "all-linear");
  } else if (!config.target_modules.empty()) {
    report.Line("targets", ShowNames(config.target_modules));
  }
  if (!config.target_parameters.empty()) {
    report.Line("parameters", Join(config.target_parameters, ", "));
  }
  if (!config.exclude_modules.empty()) report.Line("but not", ShowNames(config.exclude_modules));
  if (config.layers_to_transform) report.Line("in layers", Join(*config.layers_to_transform, ", "));
  if (!config.rank_pattern.empty()) report.Line("ranks", ShowPattern(config.rank_pattern));
  if (!config.alpha_pattern.empty()) report.Line("alphas", ShowPattern(config.alpha_pattern));
  if (!config.invocation_tokens.empty()) {
    report.Line("invoked by", "the tokens ", Join(config.invocation_tokens, ", "),
                ", from which it applies (activated LoRA)");
  }
  if (config.is_classifier) report.Line("task", "to classify texts (SEQ_CLS)");
  if (!config.base_model_name.empty()) {
    report.Line("trained on", config.base_model_name, " (by its author's account)");
  }
}

Status DescribeFile(const std::string& adapter_dir, Report& report) {
  const std::string name = "adapter_model.safetensors";
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(adapter_dir + "/" + name));
  int64_t bytes = 0;
  std::map<DType, int> dtypes;
  for (const auto& [tensor_name, tensor] : file.tensors()) {
    bytes += static_cast<int64_t>(tensor.size_bytes());
    ++dtypes[tensor.dtype];
  }
  std::vector<std::string> counts;
  for (const auto& [dtype, count] : dtypes) counts.push_back(StrCat(count, " tensors in ", dtype));
  report.Line("weights", name, ", ", Join(counts, ", "), ", ", ShowBytes(bytes));
  return OkStatus();
}

// "22 layers × q_proj, v_proj" where all layers are alike.
std::string ShowModules(const ModelSpec& base, const LoraSpec& spec) {
  const LayerModules modules(base);
  std::map<std::string, int> layers_by_modules;
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    std::vector<std::string> names;
    std::map<Projection, int64_t> num_experts;
    for (const LinearModule& module : modules[layer]) {
      if (spec.At(layer, module.first).rank == 0) continue;
      if (module.first.is_of_expert()) {
        ++num_experts[module.first.projection()];
      } else {
        names.push_back(module.first.is_router() ? "router" : std::string(Name(module)));
      }
    }
    for (const auto& [projection, count] : num_experts) {
      names.push_back(StrCat(Name(projection), " of ", count, count == 1 ? " expert" : " experts"));
    }
    if (!names.empty()) ++layers_by_modules[Join(names, ", ")];
  }
  std::vector<std::string> parts;
  for (const auto& [names, count] : layers_by_modules) {
    parts.push_back(StrCat(count, count == 1 ? " layer × " : " layers × ", names));
  }
  return Join(parts, "; ");
}

std::string ShowRows(const OwnTokenRows& rows) {
  std::vector<std::string> parts;
  for (const auto& [tokens, module] :
       {std::pair(&rows.embedding, "the embedding"), std::pair(&rows.lm_head, "lm_head")}) {
    if (tokens->empty()) continue;
    parts.push_back(StrCat(tokens->size(), tokens->size() == 1 ? " row of " : " rows of ", module));
  }
  return Join(parts, " and ");
}

// What the folder's tokenizer changes.
Status DescribeTokens(const std::string& adapter_dir, const PipelineTokenizer& base,
                      Report& report) {
  constexpr size_t kMaxShown = 8;
  ASSIGN_OR_RETURN(const AdapterTokenizerFiles files, ReadAdapterTokenizer(adapter_dir));
  ASSIGN_OR_RETURN(const TokenizerChanges changes, ChangesIn(files, base));
  std::vector<std::string> shown;
  for (const AddedToken& token : changes.tokens) {
    if (shown.size() == kMaxShown) {
      shown.push_back(StrCat("and ", changes.tokens.size() - kMaxShown, " more"));
      break;
    }
    shown.push_back(StrCat(token.id, " ", JsonQuote(token.content)));
  }
  if (!shown.empty()) report.Line("own tokens", Join(shown, ", "));
  if (changes.eos_token_id) {
    const auto changed = WithChanges(base, changes);
    report.Line("ends at", JsonQuote(changed->TokenBytes(*changes.eos_token_id, false, false)));
  }
  return OkStatus();
}

// The dtype that `aril serve --dtype auto` would compute in.
DType ServedDType(const std::string& model_dir, const ModelSpec& spec) {
  const auto checkpoint = OpenBaseCheckpoint(model_dir, spec);
  if (!checkpoint.ok()) return DType::kBF16;
  return ChooseDType("auto", *checkpoint, false).value_or(DType::kBF16);
}

// As a server does, but for DoRA's gains, which take the time of reading the whole base model.
StatusOr<Adapter> OpenAdapter(const AdapterInspectOptions& options, const ModelSpec& base) {
  ASSIGN_OR_RETURN(const LoraConfig config, LoadLoraConfig(options.adapter_dir));
  const auto checkpoint = OpenBaseCheckpoint(*options.model_dir, base);
  if (config.use_dora || !checkpoint.ok()) {
    return Adapter::OpenWithoutBase(options.adapter_dir, base, kMaxLoraRank);
  }
  return Adapter::Open(options.adapter_dir, base, kMaxLoraRank, Adapter::Values::kUnknown,
                       {&*checkpoint, kernels::AvailableIsas().back()});
}

Status DescribeFit(const AdapterInspectOptions& options, Report& report) {
  ASSIGN_OR_RETURN(const ModelSpec base, LoadModelSpec(*options.model_dir));
  report.Line("base model", *options.model_dir, ": ", base.architecture, ", ", base.num_layers,
              " layers, hidden size ", base.hidden_size);
  const auto adapter = OpenAdapter(options, base);
  report.Line("fits", adapter.ok() ? "yes" : "no");
  RETURN_IF_ERROR(adapter.status());
  report.Line("adapts", ShowModules(base, adapter->spec()));
  if (const ClassHead* head = adapter->class_head()) report.Line("labels", head->num_labels());
  if (const int64_t size = adapter->spec().vocab_size; size != base.vocab_size) {
    report.Line("vocabulary", size, " tokens, and the base model's has ", base.vocab_size);
  }
  const OwnTokenRows& rows = adapter->spec().token_rows;
  if (!rows.empty()) report.Line("brings", ShowRows(rows));
  const std::vector<int32_t>& invocation = adapter->spec().invocation_tokens;
  const auto tokenizer = LoadTokenizer(*options.model_dir);
  if (!invocation.empty()) {
    report.Line("by the text", tokenizer.ok() ? JsonQuote((*tokenizer)->Decode(invocation, false))
                                              : Message(tokenizer.status()));
  }
  if (tokenizer.ok()) RETURN_IF_ERROR(DescribeTokens(options.adapter_dir, **tokenizer, report));
  if (!adapter->spec().unmatched_targets.empty()) {
    report.Line("warning", "the config names ", adapter->spec().unmatched_targets,
                ", which nothing in the base model is called: nothing is adapted there");
  }
  const DType dtype = ServedDType(*options.model_dir, base);
  ASSIGN_OR_RETURN(const kernels::KvLayout layout, ChooseKvLayout(base, dtype));
  const int64_t pages = PagesForAdapter(*adapter, dtype, layout.page_bytes());
  report.Line("in the pool", pages, " pages of ", ShowBytes(layout.page_bytes()), ", ",
              ShowBytes(pages * layout.page_bytes()), " in ", dtype);
  return OkStatus();
}

}  // namespace

Status InspectAdapter(const AdapterInspectOptions& options, std::ostream& out) {
  Report report(out);
  report.Line("adapter", options.adapter_dir);
  ASSIGN_OR_RETURN(const LoraConfig config, LoadLoraConfig(options.adapter_dir));
  DescribeConfig(config, report);
  RETURN_IF_ERROR(DescribeFile(options.adapter_dir, report));
  if (options.model_dir.has_value()) return DescribeFit(options, report);
  report.Line("fits", "say which base model: --model DIR");
  return OkStatus();
}

}  // namespace aril
