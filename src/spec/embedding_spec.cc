// Source: sentence-transformers, models/Transformer.py, Pooling.py, Normalize.py and what
// SentenceTransformer.save writes.

#include "spec/embedding_spec.h"

#include <string_view>

#include "base/file.h"
#include "base/strings.h"
#include "spec/fields.h"

namespace aril {
namespace {

constexpr std::string_view kModePrefix = "pooling_mode_";
constexpr std::string_view kLastToken = "lasttoken";

// The configuration of a pooling has a member for each way to pool, or, in newer versions, the
// name of one.
Status CheckPooling(const Json& config) {
  constexpr std::string_view kMode = "pooling_mode";
  if (internal::FindField(config, kMode) != nullptr) {
    ASSIGN_OR_RETURN(const std::string mode, internal::ReadString(config, kMode, ""));
    return mode == kLastToken ? OkStatus()
                              : internal::UnsupportedField(config, kMode, JsonQuote(kLastToken));
  }
  const std::string last = StrCat(kModePrefix, kLastToken);
  for (const auto& [key, value] : *config.AsObject()) {
    if (!key.starts_with(kModePrefix) || key == last || internal::IsOff(config, key)) continue;
    return internal::UnsupportedField(config, key, StrCat("false, and true for ", last));
  }
  ASSIGN_OR_RETURN(const bool takes_last, internal::ReadBool(config, last, false));
  return takes_last ? OkStatus() : internal::UnsupportedField(config, last, "true");
}

// Its file need not be there.
Status CheckTransformer(const ReadConfig& read) {
  constexpr const char* kFile = "sentence_bert_config.json";
  constexpr std::string_view kLower = "do_lower_case";
  const auto config = read(kFile);
  if (config.status().code() == StatusCode::kNotFound) return OkStatus();
  if (!config.ok()) return config.status();
  if (internal::IsOff(*config, kLower)) return OkStatus();
  return Annotate(internal::UnsupportedField(*config, kLower, "false or absent"), kFile);
}

}  // namespace

StatusOr<EmbeddingSpec> ParseEmbeddingSpec(const Json& modules, const ReadConfig& read) {
  if (modules.AsArray() == nullptr) {
    return InvalidArgument(StrCat("is ", modules.KindName(), ", not an array"));
  }
  bool pools = false;
  EmbeddingSpec spec = {.normalize = false};
  // They run one behind the other.
  for (const Json& module : *modules.AsArray()) {
    if (module.AsObject() == nullptr) return InvalidArgument("holds something that is no object");
    ASSIGN_OR_RETURN(const std::string type, internal::ReadString(module, "type", ""));
    // Without its package, of which there were several; one that is not theirs is code in the
    // folder.
    const bool is_theirs = type.starts_with("sentence_transformers.");
    const std::string name = is_theirs ? type.substr(type.rfind('.') + 1) : "";
    if (name == "Pooling") {
      ASSIGN_OR_RETURN(const std::string path, internal::ReadString(module, "path", ""));
      const std::string file = StrCat(path, "/config.json");
      ASSIGN_OR_RETURN(const Json config, read(file));
      if (const Status checked = CheckPooling(config); !checked.ok()) {
        return Annotate(checked, file);
      }
      pools = true;
    } else if (name == "Normalize") {
      spec.normalize = true;
    } else if (name == "Transformer") {
      RETURN_IF_ERROR(CheckTransformer(read));
    } else {
      return internal::UnsupportedField(module, "type",
                                        "sentence_transformers' Transformer, Pooling, Normalize");
    }
  }
  if (!pools) return Unimplemented("has no module of the class Pooling");
  return spec;
}

StatusOr<EmbeddingSpec> LoadEmbeddingSpec(const std::string& model_dir) {
  const std::string path = model_dir + "/modules.json";
  if (!FileExists(path)) return EmbeddingSpec();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, internal::kMaxConfigBytes));
  const auto modules = Json::Parse(text);
  if (!modules.ok()) return Annotate(modules.status(), path);
  auto spec = ParseEmbeddingSpec(*modules, [&](const std::string& name) {
    return internal::ReadConfigFile(StrCat(model_dir, "/", name));
  });
  if (!spec.ok()) return Annotate(spec.status(), path);
  return spec;
}

}  // namespace aril
