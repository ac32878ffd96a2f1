#include "spec/quantized_spec.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "spec/fields.h"

namespace aril::internal {
namespace {

using Layout = Int4View::Layout;

constexpr std::string_view kKeys[] = {"quantization_config", "compression_config"};

constexpr int64_t kBits = 4;
constexpr int64_t kByteBits = 8;
// Kernels take so many inputs at a time, of four bits and of FP8.
constexpr int64_t kGroupMultiple = 32;
constexpr int64_t kFloat8Multiple = 128;
constexpr int64_t kMaxGroupSize = int64_t{1} << 20;
constexpr int64_t kAllInputs = -1;

constexpr char kInstead[] =
    "; or the model before it was quantized, which --quantization int8 or int4 rounds as it is "
    "loaded";

// A field that programs write by several names: the first that is there, else the first.
std::string_view NameOf(const Json& config, std::initializer_list<std::string_view> names) {
  const auto* const found = std::ranges::find_if(
      names, [&](std::string_view name) { return FindField(config, name) != nullptr; });
  return found == names.end() ? *names.begin() : *found;
}

Status CheckBits(const Json& config, std::string_view key, int64_t expected = kBits) {
  ASSIGN_OR_RETURN(const int64_t bits, ReadInt(config, {key, 1, 64}));
  return bits == expected ? OkStatus() : UnsupportedField(config, key, StrCat(expected, kInstead));
}

// Of blocks or groups of FP8.
Status CheckFloat8Inputs(const Json& config, std::string_view key, int64_t inputs) {
  if (inputs % kFloat8Multiple == 0) return OkStatus();
  return UnsupportedField(config, key,
                          StrCat("a multiple of ", kFloat8Multiple, " inputs", kInstead));
}

// [128, 128], of outputs and of inputs.
std::optional<Float8Spec::Block> BlockOf(const Json& value) {
  const auto is_size = [](const Json& size) {
    return size.AsInt() != nullptr && *size.AsInt() > 0 && *size.AsInt() <= kMaxGroupSize;
  };
  const Json::Array* const sizes = value.AsArray();
  if (sizes == nullptr || sizes->size() != 2 || !std::ranges::all_of(*sizes, is_size)) {
    return std::nullopt;
  }
  return Float8Spec::Block{.outputs = *(*sizes)[0].AsInt(), .inputs = *(*sizes)[1].AsInt()};
}

// Absent: there are no blocks.
StatusOr<std::optional<Float8Spec::Block>> ReadBlock(const Json& config, std::string_view key) {
  if (IsOff(config, key)) return std::optional<Float8Spec::Block>();
  const std::optional<Float8Spec::Block> block = BlockOf(*FindField(config, key));
  if (!block) {
    return BadField(config, key, StrCat("two sizes up to ", kMaxGroupSize, ", as [128, 128]"));
  }
  RETURN_IF_ERROR(CheckFloat8Inputs(config, key, block->inputs));
  return block;
}

StatusOr<std::optional<int64_t>> ReadGroupSize(const Json& config, std::string_view key,
                                               std::optional<int64_t> fallback) {
  ASSIGN_OR_RETURN(const int64_t size, ReadInt(config, {key, kAllInputs, kMaxGroupSize, fallback}));
  if (size == kAllInputs) return std::optional<int64_t>();
  if (size <= 0 || size % kGroupMultiple != 0) {
    return UnsupportedField(
        config, key,
        StrCat("multiples of ", kGroupMultiple, ", and ", kAllInputs, " for all inputs", kInstead));
  }
  return std::optional<int64_t>(size);
}

// A field that must have one of `values`, or be absent.
Status CheckIsOneOf(const Json& config, std::string_view key,
                    std::initializer_list<std::string_view> values) {
  if (FindField(config, key) == nullptr) return OkStatus();
  ASSIGN_OR_RETURN(const std::string value, ReadString(config, key, ""));
  if (std::ranges::find(values, value) != values.end()) return OkStatus();
  return UnsupportedField(config, key, StrCat("\"", Join(values, "\", \""), "\"", kInstead));
}

Status CheckIsOff(const Json& config, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (!IsOff(config, key)) {
      return UnsupportedField(config, key, StrCat("null or absent", kInstead));
    }
  }
  return OkStatus();
}

// The format of the tensors, which is one of `formats` (the first where none is said) by whichever
// name it has: if by several, the same by each.
StatusOr<std::string> ReadFormat(const Json& config, std::initializer_list<std::string_view> names,
                                 std::initializer_list<std::string_view> formats) {
  std::optional<std::string> format;
  for (const std::string_view name : names) {
    RETURN_IF_ERROR(CheckIsOneOf(config, name, formats));
    if (FindField(config, name) == nullptr) continue;
    ASSIGN_OR_RETURN(const std::string value, ReadString(config, name, ""));
    if (format && *format != value) {
      return BadField(config, name, StrCat("\"", *format, "\", as \"", *names.begin(), "\" is"));
    }
    format = value;
  }
  return format.value_or(std::string(*formats.begin()));
}

// GPTQModel's settings for modules by patterns: those that are left alone have numbers, of the
// others all must be quantized alike.
Status CheckDynamic(const Json& config, const Int4Spec& spec) {
  constexpr std::string_view kDynamic = "dynamic", kLeftAlone = "-:";
  if (IsOff(config, kDynamic)) return OkStatus();
  const Json& patterns = *FindField(config, kDynamic);
  if (patterns.AsObject() == nullptr) return BadField(config, kDynamic, "an object");
  for (const auto& [pattern, settings] : *patterns.AsObject()) {
    if (pattern.starts_with(kLeftAlone)) continue;
    if (settings.AsObject() == nullptr) return BadField(config, kDynamic, "an object of objects");
    ASSIGN_OR_RETURN(const int64_t bits, ReadInt(settings, {"bits", 1, 64, kBits}));
    const int64_t of_all = spec.group_size.value_or(kAllInputs);
    ASSIGN_OR_RETURN(const int64_t group_size,
                     ReadInt(settings, {"group_size", kAllInputs, kMaxGroupSize, of_all}));
    if (bits != kBits || group_size != of_all) {
      return UnsupportedField(config, kDynamic,
                              StrCat("the same bits and group_size for all modules", kInstead));
    }
  }
  return OkStatus();
}

// Of GPTQModel: what is done to activations, and what comes beside the weights.
Status CheckIsOfWeightsAlone(const Json& config) {
  return CheckIsOff(config, {"rotation", "activation", "adapter"});
}

// "meta": {"quantizer": "gptqmodel:1.4.0"}, or a list of such.
bool IsByGptqModel(const Json& config) {
  const Json* meta = FindField(config, "meta");
  const Json* quantizer = meta == nullptr ? nullptr : FindField(*meta, "quantizer");
  if (quantizer == nullptr) return false;
  const auto is_it = [](const Json& name) {
    return name.AsString() != nullptr && name.AsString()->starts_with("gptqmodel:");
  };
  const Json::Array* names = quantizer->AsArray();
  return names != nullptr ? std::ranges::any_of(*names, is_it) : is_it(*quantizer);
}

StatusOr<QuantizedSpec> ReadGptq(const Json& config) {
  constexpr std::string_view kFirst = "gptq", kSecond = "gptq_v2";
  RETURN_IF_ERROR(CheckBits(config, "bits"));
  Int4Spec spec{.layout = Layout::kGptq};
  ASSIGN_OR_RETURN(spec.group_size, ReadGroupSize(config, "group_size", 128));
  ASSIGN_OR_RETURN(const std::string format,
                   ReadFormat(config, {"checkpoint_format", "format"}, {kFirst, kSecond}));
  RETURN_IF_ERROR(CheckIsOneOf(config, "pack_dtype", {"int32"}));
  RETURN_IF_ERROR(CheckIsOff(config, {"is_marlin_format"}));
  RETURN_IF_ERROR(CheckIsOfWeightsAlone(config));
  RETURN_IF_ERROR(CheckDynamic(config, spec));
  spec.zeros_less_one = format == kFirst;
  spec.zeros_borrow = spec.zeros_less_one && IsByGptqModel(config);
  ASSIGN_OR_RETURN(spec.has_order, ReadBool(config, "desc_act", false));
  return spec;
}

StatusOr<QuantizedSpec> ReadAwq(const Json& config) {
  RETURN_IF_ERROR(CheckBits(config, NameOf(config, {"bits", "w_bit"})));
  Int4Spec spec{.layout = Layout::kAwq};
  ASSIGN_OR_RETURN(spec.group_size,
                   ReadGroupSize(config, NameOf(config, {"group_size", "q_group_size"}), 128));
  RETURN_IF_ERROR(CheckIsOneOf(config, "version", {"gemm", "GEMM"}));
  RETURN_IF_ERROR(ReadFormat(config, {"checkpoint_format", "format"}, {"gemm"}).status());
  RETURN_IF_ERROR(CheckIsOneOf(config, "pack_dtype", {"int32"}));
  RETURN_IF_ERROR(CheckIsOfWeightsAlone(config));
  RETURN_IF_ERROR(CheckDynamic(config, spec));
  return spec;
}

// How the weights of a group of modules are quantized.
StatusOr<Int4Spec> ReadCompressedWeights(const Json& weights) {
  RETURN_IF_ERROR(CheckBits(weights, "num_bits"));
  RETURN_IF_ERROR(CheckIsOneOf(weights, "type", {"int"}));
  RETURN_IF_ERROR(CheckIsOff(weights, {"dynamic"}));
  Int4Spec spec{.layout = Layout::kCompressed};
  constexpr std::string_view kStrategy = "strategy", kGroup = "group", kChannel = "channel";
  RETURN_IF_ERROR(CheckIsOneOf(weights, kStrategy, {kGroup, kChannel}));
  ASSIGN_OR_RETURN(spec.group_size, ReadGroupSize(weights, "group_size", kAllInputs));
  ASSIGN_OR_RETURN(const std::string strategy,
                   ReadString(weights, kStrategy, spec.group_size ? kGroup : kChannel));
  if ((strategy == kGroup) != spec.group_size.has_value()) {
    return BadField(weights, "group_size",
                    StrCat("a size of groups for the strategy \"", kGroup, "\" alone"));
  }
  ASSIGN_OR_RETURN(const bool is_symmetric, ReadBool(weights, "symmetric", true));
  spec.has_zeros = !is_symmetric;
  ASSIGN_OR_RETURN(const std::string order, ReadString(weights, "actorder", ""));
  spec.has_order = order == "group" || order == "dynamic";
  return spec;
}

// What is the same for weights and for inputs that are rounded to bytes. Without a strategy it
// would be another one, by compressed-tensors' rules.
Status CheckAreBytes(const Json& numbers, std::string_view strategy) {
  RETURN_IF_ERROR(CheckBits(numbers, "num_bits", kByteBits));
  RETURN_IF_ERROR(CheckIsOneOf(numbers, "type", {"int"}));
  if (FindField(numbers, "strategy") == nullptr) {
    return BadField(numbers, "strategy", StrCat("\"", strategy, "\""));
  }
  RETURN_IF_ERROR(CheckIsOneOf(numbers, "strategy", {strategy}));
  ASSIGN_OR_RETURN(const int64_t group_size,
                   ReadInt(numbers, {"group_size", kAllInputs, kMaxGroupSize, kAllInputs}));
  if (group_size != kAllInputs) {
    return UnsupportedField(numbers, "group_size", StrCat("null for bytes", kInstead));
  }
  ASSIGN_OR_RETURN(const bool is_symmetric, ReadBool(numbers, "symmetric", true));
  return is_symmetric ? OkStatus()
                      : UnsupportedField(numbers, "symmetric", StrCat("true for bytes", kInstead));
}

// transformers' FineGrainedFP8Config, DeepSeek's files and AutoFP8's. How activations and KV are
// rounded is all the same to who does not round them.
StatusOr<QuantizedSpec> ReadFp8(const Json& config) {
  RETURN_IF_ERROR(CheckIsOneOf(config, "fmt", {"e4m3", "float8_e4m3fn"}));
  Float8Spec spec;
  ASSIGN_OR_RETURN(spec.block, ReadBlock(config, "weight_block_size"));
  return spec;
}

StatusOr<QuantizedSpec> ReadFbgemmFp8(const Json&) { return Float8Spec{}; }

Status CheckAreFloats(const Json& numbers) {
  RETURN_IF_ERROR(CheckBits(numbers, "num_bits", kByteBits));
  return CheckIsOneOf(numbers, "type", {"float"});
}

// How the weights of a group of modules are quantized.
StatusOr<Float8Spec> ReadFloatWeights(const Json& weights) {
  constexpr std::string_view kTensor = "tensor", kChannel = "channel", kGroup = "group",
                             kBlock = "block", kStrategy = "strategy", kGroupSize = "group_size";
  RETURN_IF_ERROR(CheckAreFloats(weights));
  RETURN_IF_ERROR(CheckIsOff(weights, {"dynamic"}));
  ASSIGN_OR_RETURN(const bool is_symmetric, ReadBool(weights, "symmetric", true));
  if (!is_symmetric) return UnsupportedField(weights, "symmetric", StrCat("true", kInstead));
  RETURN_IF_ERROR(CheckIsOneOf(weights, kStrategy, {kTensor, kChannel, kGroup, kBlock}));
  ASSIGN_OR_RETURN(const int64_t group_size,
                   ReadInt(weights, {kGroupSize, kAllInputs, kMaxGroupSize, kAllInputs}));
  ASSIGN_OR_RETURN(const std::string strategy,
                   ReadString(weights, kStrategy, group_size > 0 ? kGroup : kTensor));
  Float8Spec spec;
  if (strategy == kBlock) {
    ASSIGN_OR_RETURN(spec.block, ReadBlock(weights, "block_structure"));
    if (!spec.block) return BadField(weights, "block_structure", "two sizes, as of blocks");
  } else if (strategy == kGroup) {
    if (group_size <= 0) return BadField(weights, kGroupSize, "a size, as of groups");
    RETURN_IF_ERROR(CheckFloat8Inputs(weights, kGroupSize, group_size));
    spec.block = Float8Spec::Block{.outputs = 1, .inputs = group_size};
  }
  return spec;
}

// An object within one, which must be there.
StatusOr<const Json*> ReadObject(const Json& config, std::string_view key) {
  const Json* object = FindField(config, key);
  if (object == nullptr || object->AsObject() == nullptr) {
    return BadField(config, key, "an object");
  }
  return object;
}

Status CheckByteWeights(const Json& weights) {
  RETURN_IF_ERROR(CheckAreBytes(weights, "channel"));
  // The order of calibration, which leaves no trace.
  if (!IsOff(weights, "actorder")) {
    RETURN_IF_ERROR(CheckIsOneOf(weights, "actorder", {"weight", "static"}));
  }
  return CheckIsOff(weights, {"dynamic"});
}

Status CheckByteInputs(const Json& inputs) {
  RETURN_IF_ERROR(CheckAreBytes(inputs, "token"));
  RETURN_IF_ERROR(CheckIsOff(inputs, {"actorder"}));
  ASSIGN_OR_RETURN(const bool is_dynamic, ReadBool(inputs, "dynamic", false));
  return is_dynamic ? OkStatus() : UnsupportedField(inputs, "dynamic", StrCat("true", kInstead));
}

// Of weights and inputs in bytes.
StatusOr<QuantizedSpec> ReadByteGroup(const Json& group) {
  constexpr std::string_view kWeights = "weights", kInputs = "input_activations";
  ASSIGN_OR_RETURN(const Json* const weights, ReadObject(group, kWeights));
  const Status of_weights = CheckByteWeights(*weights);
  if (!of_weights.ok()) return Annotate(of_weights, std::string(kWeights));
  if (IsOff(group, kInputs)) {
    return UnsupportedField(group, kInputs, StrCat("bytes, beside weights in bytes", kInstead));
  }
  ASSIGN_OR_RETURN(const Json* const inputs, ReadObject(group, kInputs));
  const Status of_inputs = CheckByteInputs(*inputs);
  if (!of_inputs.ok()) return Annotate(of_inputs, std::string(kInputs));
  return Int8Spec{};
}

// Of weights in FP8; inputs are as they are, or meant to be rounded to it.
StatusOr<QuantizedSpec> ReadFloatGroup(const Json& group) {
  constexpr std::string_view kWeights = "weights", kInputs = "input_activations";
  ASSIGN_OR_RETURN(const Json* const weights, ReadObject(group, kWeights));
  const StatusOr<Float8Spec> spec = ReadFloatWeights(*weights);
  if (!spec.ok()) return Annotate(spec.status(), std::string(kWeights));
  if (IsOff(group, kInputs)) return *spec;
  ASSIGN_OR_RETURN(const Json* const inputs, ReadObject(group, kInputs));
  const Status of_inputs = CheckAreFloats(*inputs);
  if (!of_inputs.ok()) return Annotate(of_inputs, std::string(kInputs));
  return *spec;
}

StatusOr<QuantizedSpec> ReadPackedGroup(const Json& group) {
  RETURN_IF_ERROR(CheckIsOff(group, {"input_activations"}));
  constexpr std::string_view kWeights = "weights";
  ASSIGN_OR_RETURN(const Json* const weights, ReadObject(group, kWeights));
  const StatusOr<Int4Spec> spec = ReadCompressedWeights(*weights);
  if (!spec.ok()) return Annotate(spec.status(), std::string(kWeights));
  return *spec;
}

StatusOr<QuantizedSpec> ReadCompressed(const Json& config) {
  // The last of them is any kind of numbers in tensors of their own, of which FP8 is read.
  constexpr std::string_view kPacked = "pack-quantized", kBytes = "int-quantized",
                             kFloats = "float-quantized", kNaive = "naive-quantized";
  ASSIGN_OR_RETURN(const std::string format,
                   ReadFormat(config, {"format"}, {kPacked, kBytes, kFloats, kNaive}));
  RETURN_IF_ERROR(CheckIsOff(config, {"transform_config"}));
  // That of FP8 is as what it says of activations.
  constexpr std::string_view kKv = "kv_cache_scheme";
  if ((format == kFloats || format == kNaive) && !IsOff(config, kKv)) {
    ASSIGN_OR_RETURN(const Json* const kv, ReadObject(config, kKv));
    const Status status = CheckAreFloats(*kv);
    if (!status.ok()) return Annotate(status, std::string(kKv));
  } else {
    RETURN_IF_ERROR(CheckIsOff(config, {kKv}));
  }
  constexpr std::string_view kSparsity = "sparsity_config", kGroups = "config_groups";
  if (const Json* sparsity = FindField(config, kSparsity); sparsity != nullptr) {
    if (sparsity->AsObject() == nullptr) return BadField(config, kSparsity, "an object");
    const Status status = CheckIsOneOf(*sparsity, "format", {"dense"});
    if (!status.ok()) return Annotate(status, std::string(kSparsity));
  }
  const Json* groups = FindField(config, kGroups);
  if (groups == nullptr || groups->AsObject() == nullptr || groups->AsObject()->empty()) {
    return BadField(config, kGroups, "an object with at least one group");
  }
  const auto read_group = [&](const Json& group) -> StatusOr<QuantizedSpec> {
    RETURN_IF_ERROR(CheckIsOneOf(group, "format", {format}));
    RETURN_IF_ERROR(CheckIsOff(group, {"output_activations"}));
    if (format == kPacked) return ReadPackedGroup(group);
    return format == kBytes ? ReadByteGroup(group) : ReadFloatGroup(group);
  };
  std::optional<QuantizedSpec> all;
  for (const auto& [name, group] : *groups->AsObject()) {
    if (group.AsObject() == nullptr) return BadField(config, kGroups, "an object of objects");
    const StatusOr<QuantizedSpec> spec = read_group(group);
    if (!spec.ok()) return Annotate(spec.status(), StrCat(kGroups, ": ", JsonQuote(name)));
    if (all && *all != *spec) {
      return UnsupportedField(config, kGroups,
                              StrCat("groups whose weights are quantized alike", kInstead));
    }
    all = *spec;
  }
  return *all;
}

// transformers' BitsAndBytesConfig. What a product is computed in (bnb_4bit_compute_dtype) --dtype
// says here; the rest of what it says of four bits is in each module's tensors.
StatusOr<QuantizedSpec> ReadBitsAndBytes(const Json& config) {
  constexpr std::string_view kInFourBits = "load_in_4bit", kInEight = "load_in_8bit";
  RETURN_IF_ERROR(CheckIsOff(config, {kInEight}));
  ASSIGN_OR_RETURN(const bool is_in_four_bits, ReadBool(config, kInFourBits, false));
  if (!is_in_four_bits) return UnsupportedField(config, kInFourBits, StrCat("true", kInstead));
  RETURN_IF_ERROR(CheckIsOneOf(config, "bnb_4bit_quant_type", {"nf4", "fp4"}));
  return Codebook4Spec{};
}

// transformers' Mxfp4Config: which modules are not, their tensors say.
StatusOr<QuantizedSpec> ReadMxfp4(const Json&) { return Mxfp4Spec{}; }

struct Method {
  std::string_view name;
  StatusOr<QuantizedSpec> (*read)(const Json&);
};
constexpr Method kMethods[] = {{"gptq", ReadGptq},
                               {"awq", ReadAwq},
                               {"fp8", ReadFp8},
                               {"fbgemm_fp8", ReadFbgemmFp8},
                               {"bitsandbytes", ReadBitsAndBytes},
                               {"mxfp4", ReadMxfp4},
                               {"compressed-tensors", ReadCompressed}};

StatusOr<QuantizedSpec> ReadMethod(const Json& config) {
  constexpr std::string_view kMethod = "quant_method";
  ASSIGN_OR_RETURN(const std::string name, ReadString(config, kMethod, ""));
  for (const Method& method : kMethods) {
    if (name == method.name) return method.read(config);
  }
  return UnsupportedField(
      config, kMethod,
      StrCat(R"("gptq" and "awq" of )", kBits, R"( bits, "fp8", "fbgemm_fp8", )",
             R"("bitsandbytes" of )", kBits, R"( bits, "mxfp4", and "compressed-tensors" of )",
             kBits, " bits, W8A8 or FP8", kInstead));
}

}  // namespace

StatusOr<std::optional<QuantizedSpec>> ReadQuantized(const Json& config) {
  std::optional<QuantizedSpec> spec;
  for (const std::string_view key : kKeys) {
    if (IsOff(config, key)) continue;
    const Json& value = *FindField(config, key);
    if (value.AsObject() == nullptr) return BadField(config, key, "an object");
    if (spec) return UnsupportedField(config, key, StrCat("null beside \"", kKeys[0], "\""));
    StatusOr<QuantizedSpec> read = ReadMethod(value);
    if (!read.ok()) return Annotate(read.status(), std::string(key));
    spec = *read;
  }
  return spec;
}

}  // namespace aril::internal
