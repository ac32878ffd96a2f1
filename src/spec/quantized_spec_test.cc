#include "spec/quantized_spec.h"

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::internal {
namespace {

using ::testing::HasSubstr;
using Layout = Int4View::Layout;

// The object of "quantization_config".
StatusOr<std::optional<QuantizedSpec>> Read(const std::string& text) {
  const StatusOr<Json> json = Json::Parse(text);
  CHECK(json.ok());
  return ReadQuantized(Json(Json::Object{{"quantization_config", *json}}));
}

Int4Spec SpecOf(const std::string& text) {
  const auto spec = Read(text);
  CHECK(spec.ok() && spec->has_value());
  CHECK(std::holds_alternative<Int4Spec>(**spec));
  return std::get<Int4Spec>(**spec);
}

std::string Compressed(const std::string& weights, const std::string& more = "") {
  return R"({"quant_method":"compressed-tensors","format":"pack-quantized",)" + more +
         R"("config_groups":{"group_0":{"targets":["Linear"],"input_activations":null,"weights":)" +
         weights + "}}}";
}

TEST(QuantizedSpec, IsAbsentWhereNothingIsQuantized) {
  for (const char* text : {"{}", R"({"quantization_config":null})",
                           R"({"quantization_config":{},"compression_config":null})"}) {
    const auto spec = ReadQuantized(*Json::Parse(text));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_FALSE(spec->has_value());
  }
}

// As Qwen2.5-7B-Instruct-GPTQ-Int4 has it.
TEST(QuantizedSpec, OfGptq) {
  const std::string config =
      R"("bits":4,"damp_percent":0.01,"group_size":128,"model_file_base_name":"model",
         "quant_method":"gptq","static_groups":false,"sym":true,"true_sequential":true)";
  const Int4Spec spec = SpecOf("{" + config + R"(,"desc_act":false})");
  EXPECT_EQ(spec.layout, Layout::kGptq);
  EXPECT_EQ(spec.group_size, 128);
  EXPECT_TRUE(spec.zeros_less_one);
  EXPECT_FALSE(spec.zeros_borrow);
  EXPECT_TRUE(spec.has_zeros);
  EXPECT_FALSE(spec.has_order);
  const Int4Spec second =
      SpecOf("{" + config + R"(,"desc_act":true,"checkpoint_format":"gptq_v2"})");
  EXPECT_FALSE(second.zeros_less_one);
  EXPECT_TRUE(second.has_order);
  EXPECT_FALSE(SpecOf(R"({"quant_method":"gptq","bits":4,"format":"gptq_v2"})").zeros_less_one);
  EXPECT_EQ(SpecOf(R"({"quant_method":"gptq","bits":4,"group_size":-1})").group_size, std::nullopt);
}

// As GPTQModel writes it.
TEST(QuantizedSpec, OfGptqModel) {
  for (const char* quantizer : {R"(["gptqmodel:1.4.0"])", R"("gptqmodel:2.0.0")"}) {
    const Int4Spec spec = SpecOf(
        R"({"bits":4,"dynamic":{"-:.*gate$":{},"+:.*down_proj":{"bits":4,"sym":true}},"group_size":128,
            "desc_act":false,"sym":false,"lm_head":false,"quant_method":"gptq","method":"gptq",
            "format":"gptq","checkpoint_format":"gptq","pack_dtype":"int32","rotation":null,
            "activation":null,"meta":{"quantizer":)" +
        std::string(quantizer) + R"(,"damp_percent":0.01}})");
    EXPECT_EQ(spec.group_size, 128);
    EXPECT_TRUE(spec.zeros_less_one && spec.zeros_borrow);
  }
}

// As AutoAWQ writes it into config.json, and as it calls the same in its own files.
TEST(QuantizedSpec, OfAwq) {
  for (const char* text :
       {R"({"bits":4,"group_size":64,"modules_to_not_convert":null,
                               "quant_method":"awq","version":"gemm","zero_point":true})",
        R"({"w_bit":4,"q_group_size":64,"quant_method":"awq","version":"GEMM"})"}) {
    const Int4Spec spec = SpecOf(text);
    EXPECT_EQ(spec.layout, Layout::kAwq);
    EXPECT_EQ(spec.group_size, 64);
    EXPECT_FALSE(spec.zeros_less_one);
  }
}

// As llm-compressor writes it.
TEST(QuantizedSpec, OfCompressedTensors) {
  const Int4Spec spec = SpecOf(Compressed(
      R"({"actorder":"static","block_structure":null,"dynamic":false,"group_size":128,"num_bits":4,
          "observer":"minmax","observer_kwargs":{},"strategy":"group","symmetric":true,
          "type":"int"})",
      R"("global_compression_ratio":1.4,"ignore":["lm_head"],"kv_cache_scheme":null,
         "quantization_status":"compressed","sparsity_config":{"format":"dense"},
         "transform_config":{},)"));
  EXPECT_EQ(spec.layout, Layout::kCompressed);
  EXPECT_EQ(spec.group_size, 128);
  EXPECT_FALSE(spec.has_zeros);
  EXPECT_FALSE(spec.has_order);
  const Int4Spec of_rows = SpecOf(Compressed(
      R"({"num_bits":4,"type":"int","strategy":"channel","group_size":null,"symmetric":false})"));
  EXPECT_EQ(of_rows.group_size, std::nullopt);
  EXPECT_TRUE(of_rows.has_zeros);
  EXPECT_TRUE(SpecOf(Compressed(R"({"num_bits":4,"group_size":32,"actorder":"group"})")).has_order);
  // By its older name.
  const auto older = ReadQuantized(*Json::Parse(
      R"({"compression_config":)" + Compressed(R"({"num_bits":4,"group_size":32})") + "}"));
  ASSERT_TRUE(older.ok() && older->has_value()) << older.status();
}

// As transformers writes it.
TEST(QuantizedSpec, ReadsBitsAndBytes) {
  for (const char* type : {"nf4", "fp4"}) {
    const auto spec = ReadQuantized(*Json::Parse(
        R"({"quantization_config":{"_load_in_4bit":true,"_load_in_8bit":false,
            "bnb_4bit_compute_dtype":"bfloat16","bnb_4bit_quant_storage":"uint8",
            "bnb_4bit_use_double_quant":true,"llm_int8_enable_fp32_cpu_offload":false,
            "llm_int8_has_fp16_weight":false,"llm_int8_skip_modules":["lm_head"],
            "llm_int8_threshold":6.0,"load_in_4bit":true,"load_in_8bit":false,
            "quant_method":"bitsandbytes","bnb_4bit_quant_type":")" +
        std::string(type) + R"("}})"));
    ASSERT_TRUE(spec.ok() && spec->has_value()) << spec.status();
    EXPECT_TRUE(std::holds_alternative<Codebook4Spec>(**spec));
  }
}

TEST(QuantizedSpec, RefusesWhatIsNotOneOfThese) {
  const std::string kInt8 = R"({"num_bits":8,"type":"int","strategy":"channel"})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"quant_method":"quark"})",
       R"(quantization_config: "quant_method" is "quark", which is not supported; supported: "gptq" and "awq" of 4)"},
      {R"({"quant_method":"quark"})",
       R"("fp8", "fbgemm_fp8", "bitsandbytes" of 4 bits, "mxfp4", and "compressed-tensors" of)"},
      {R"({"quant_method":"bitsandbytes","load_in_8bit":true})", R"("load_in_8bit" is true)"},
      {R"({"quant_method":"bitsandbytes"})", R"("load_in_4bit" is missing)"},
      {R"({"quant_method":"bitsandbytes","load_in_4bit":false})", R"("load_in_4bit" is false)"},
      {R"({"quant_method":"bitsandbytes","load_in_4bit":1})", R"("load_in_4bit" is 1)"},
      {R"({"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"int4"})",
       R"("bnb_4bit_quant_type" is "int4", which is not supported; supported: "nf4", "fp4")"},
      {R"({"bits":4})", R"("quant_method" is missing)"},
      {R"({"quant_method":"gptq","bits":8})", R"("bits" is 8, which is not supported)"},
      {R"({"quant_method":"gptq","bits":8})", "--quantization int8 or int4 rounds"},
      {R"({"quant_method":"gptq"})", R"("bits" is missing; expected an integer)"},
      {R"({"quant_method":"gptq","bits":4,"group_size":16})", "supported: multiples of 32"},
      {R"({"quant_method":"gptq","bits":4,"group_size":0})", "supported: multiples of 32"},
      {R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})",
       R"("checkpoint_format" is "marlin", which is not supported; supported: "gptq", "gptq_v2")"},
      {R"({"quant_method":"gptq","bits":4,"is_marlin_format":true})", R"("is_marlin_format" is)"},
      {R"({"quant_method":"gptq","bits":4,"pack_dtype":"int64"})", R"("pack_dtype" is "int64")"},
      {R"({"quant_method":"gptq","bits":4,"desc_act":1})", R"("desc_act" is 1; expected true or)"},
      {R"({"quant_method":"gptq","bits":4,"rotation":"hadamard"})", R"("rotation" is "hadamard")"},
      {R"({"quant_method":"gptq","bits":4,"activation":{"format":"fp8"}})", R"("activation" is)"},
      {R"({"quant_method":"awq","bits":4,"rotation":"random"})", R"("rotation" is "random")"},
      {R"({"quant_method":"gptq","bits":4,"checkpoint_format":"gptq","format":"gptq_v2"})",
       R"("format" is "gptq_v2"; expected "gptq", as "checkpoint_format" is)"},
      {R"({"quant_method":"gptq","bits":4,"dynamic":{"+:.*down.*":{"bits":8}}})",
       R"("dynamic" is {"+:.*down.*":{"bits":8}}, which is not supported; supported: the same bits)"},
      {R"({"quant_method":"gptq","bits":4,"dynamic":{".*down.*":{"group_size":32}}})",
       "supported: the same bits and group_size for all modules"},
      {R"({"quant_method":"awq","w_bit":3})", R"("w_bit" is 3, which is not supported)"},
      {R"({"quant_method":"awq","bits":4,"version":"gemv"})",
       R"("version" is "gemv", which is not supported; supported: "gemm")"},
      {Compressed(kInt8), R"("group_0": weights: "num_bits" is 8, which is not supported)"},
      {Compressed(R"({"num_bits":4,"type":"float"})"), R"("type" is "float")"},
      {Compressed(R"({"num_bits":4,"dynamic":true})"), R"("dynamic" is true)"},
      {Compressed(R"({"num_bits":4,"strategy":"tensor"})"), R"("strategy" is "tensor")"},
      {Compressed(R"({"num_bits":4,"strategy":"group"})"), R"("group_size" is missing; expected)"},
      {Compressed(R"({"num_bits":4,"strategy":"channel","group_size":32})"),
       R"("group_size" is 32; expected a size of groups for the strategy "group" alone)"},
      {Compressed("7"), R"("weights" is 7; expected an object)"},
      {Compressed(R"({"num_bits":4})", R"("kv_cache_scheme":{"num_bits":8},)"),
       R"("kv_cache_scheme" is)"},
      {Compressed(R"({"num_bits":4})", R"("transform_config":{"a":1},)"),
       R"("transform_config" is)"},
      {Compressed(R"({"num_bits":4})", R"("sparsity_config":{"format":"sparse-24-bitmask"},)"),
       R"(sparsity_config: "format" is "sparse-24-bitmask", which is not supported)"},
      {R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized"})",
       R"("format" is "nvfp4-pack-quantized", which is not supported; supported: "pack-quantized", )"
       R"("int-quantized", "float-quantized", "naive-quantized")"},
      {R"({"quant_method":"compressed-tensors","config_groups":{}})",
       R"("config_groups" is {}; expected an object with at least one group)"},
      {R"({"quant_method":"compressed-tensors","config_groups":{"a":
            {"input_activations":{"num_bits":8},"weights":{"num_bits":4}}}})",
       R"("input_activations" is)"},
      {R"({"quant_method":"compressed-tensors","config_groups":{
            "a":{"weights":{"num_bits":4,"group_size":32}},
            "b":{"weights":{"num_bits":4,"group_size":64}}}})",
       "supported: groups whose weights are quantized alike"},
  };
  for (const auto& [config, expected] : cases) {
    const auto spec = Read(config);
    ASSERT_FALSE(spec.ok()) << config;
    EXPECT_THAT(Message(spec.status()), HasSubstr(expected)) << config;
  }
  EXPECT_THAT(Message(ReadQuantized(*Json::Parse(R"({"quantization_config":7})")).status()),
              HasSubstr(R"("quantization_config" is 7; expected an object)"));
  const auto both = ReadQuantized(*Json::Parse(
      R"({"quantization_config":{"quant_method":"gptq","bits":4},"compression_config":{"a":1}})"));
  EXPECT_THAT(Message(both.status()), HasSubstr(R"("compression_config" is {"a":1})"));
}

// As llm-compressor writes it, of weights and inputs.
std::string Bytes(const std::string& weights, const std::string& inputs) {
  return R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"group_0":{
             "targets":["Linear"],"output_activations":null,"weights":)" +
         weights + R"(,"input_activations":)" + inputs + "}}}";
}
constexpr char kByteWeights[] =
    R"({"actorder":null,"block_structure":null,"dynamic":false,"group_size":null,"num_bits":8,
        "observer":"mse","observer_kwargs":{},"strategy":"channel","symmetric":true,"type":"int"})";
constexpr char kByteInputs[] =
    R"({"actorder":null,"block_structure":null,"dynamic":true,"group_size":null,"num_bits":8,
        "observer":null,"observer_kwargs":{},"strategy":"token","symmetric":true,"type":"int"})";

TEST(QuantizedSpec, OfBytes) {
  const auto spec = Read(Bytes(kByteWeights, kByteInputs));
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(spec->has_value());
  EXPECT_TRUE(std::holds_alternative<Int8Spec>(**spec));
  for (const char* more : {R"("actorder":"static")", R"("actorder":"weight")",
                           R"("actorder":false)", R"("group_size":-1)"}) {
    EXPECT_TRUE(
        Read(Bytes(std::string(R"({"num_bits":8,"strategy":"channel",)") + more + "}", kByteInputs))
            .ok())
        << more;
  }
}

TEST(QuantizedSpec, OfBytesRefusesWhatWouldBeOtherNumbers) {
  const auto error = [](const std::string& weights, const std::string& inputs) {
    return Message(Read(Bytes(weights, inputs)).status());
  };
  for (const auto& [weights, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"({"num_bits":4})", R"(weights: "num_bits" is 4)"},
           {R"({"num_bits":8,"type":"float"})", R"(weights: "type" is "float")"},
           {R"({"num_bits":8,"strategy":"tensor"})", R"(weights: "strategy" is "tensor")"},
           {R"({"num_bits":8})", R"(weights: "strategy" is missing; expected "channel")"},
           {R"({"num_bits":8,"strategy":"channel","group_size":128})",
            R"(weights: "group_size" is 128)"},
           {R"({"num_bits":8,"strategy":"channel","symmetric":false})",
            R"(weights: "symmetric" is false)"},
           {R"({"num_bits":8,"strategy":"channel","dynamic":true})",
            R"(weights: "dynamic" is true)"},
           {R"({"num_bits":8,"strategy":"channel","actorder":"group"})",
            R"(weights: "actorder" is "group")"},
           {"7", R"("weights" is 7; expected an object)"}}) {
    EXPECT_THAT(error(weights, kByteInputs), HasSubstr(expected));
  }
  for (const auto& [inputs, expected] : std::vector<std::pair<std::string, std::string>>{
           {"null", R"("input_activations" is null)"},
           {R"({"num_bits":8,"strategy":"tensor"})", R"(input_activations: "strategy" is)"},
           {R"({"num_bits":8,"dynamic":true})", R"(input_activations: "strategy" is missing)"},
           {R"({"num_bits":8,"strategy":"token","symmetric":false})",
            R"(input_activations: "symmetric" is false)"},
           {R"({"num_bits":8,"strategy":"token","dynamic":false})",
            R"(input_activations: "dynamic" is false)"},
           {R"({"num_bits":8,"strategy":"token","dynamic":"local"})",
            R"(input_activations: "dynamic" is "local")"}}) {
    EXPECT_THAT(error(kByteWeights, inputs), HasSubstr(expected));
  }
}

Float8Spec Float8SpecOf(const std::string& text) {
  const auto spec = Read(text);
  CHECK(spec.ok() && spec->has_value());
  CHECK(std::holds_alternative<Float8Spec>(**spec));
  return std::get<Float8Spec>(**spec);
}

// As Qwen3-8B-FP8 has it, AutoFP8 and FBGEMM.
TEST(QuantizedSpec, OfFp8) {
  const Float8Spec spec = Float8SpecOf(
      R"({"activation_scheme":"dynamic","fmt":"e4m3","modules_to_not_convert":["lm_head"],
          "quant_method":"fp8","weight_block_size":[128,256]})");
  EXPECT_EQ(spec.block, (Float8Spec::Block{.outputs = 128, .inputs = 256}));
  EXPECT_EQ(Float8SpecOf(R"({"quant_method":"fp8","activation_scheme":"static",
                             "ignored_layers":["lm_head"]})"),
            Float8Spec{});
  // What says how activations and KV are rounded.
  EXPECT_EQ(Float8SpecOf(R"({"quant_method":"fp8","fmt":"float8_e4m3fn","weight_block_size":null,
                             "kv_cache_scheme":"static","scale_fmt":"ue8m0"})"),
            Float8Spec{});
  EXPECT_EQ(Float8SpecOf(R"({"quant_method":"fbgemm_fp8","activation_scale_ub":1200.0,
                             "modules_to_not_convert":["model.layers.0.mlp.up_proj"]})"),
            Float8Spec{});
}

// As llm-compressor writes it.
std::string Floats(const std::string& weights, const std::string& inputs,
                   const std::string& format = "float-quantized") {
  return R"({"quant_method":"compressed-tensors","format":")" + format +
         R"(","config_groups":{"group_0":{"targets":["Linear"],"output_activations":null,"weights":)" +
         weights + R"(,"input_activations":)" + inputs + "}}}";
}
constexpr char kFloatInputs[] =
    R"({"actorder":null,"block_structure":null,"dynamic":true,"group_size":null,"num_bits":8,
        "observer":null,"observer_kwargs":{},"strategy":"token","symmetric":true,"type":"float"})";

TEST(QuantizedSpec, OfCompressedFp8) {
  const std::string alike =
      R"({"actorder":null,"dynamic":false,"num_bits":8,"symmetric":true,"type":"float",)";
  for (const char* strategy : {R"("strategy":"channel"})", R"("strategy":"tensor"})",
                               R"("group_size":null,"block_structure":null})"}) {
    EXPECT_EQ(Float8SpecOf(Floats(alike + strategy, kFloatInputs)), Float8Spec{}) << strategy;
  }
  EXPECT_EQ(Float8SpecOf(Floats(alike + R"("strategy":"block","block_structure":[64,128]})",
                                R"({"num_bits":8,"type":"float","strategy":"group","group_size":128,
                                    "dynamic":true})"))
                .block,
            (Float8Spec::Block{.outputs = 64, .inputs = 128}));
  // Of weights alone, by the name that its library has for this.
  EXPECT_EQ(Float8SpecOf(Floats(alike + R"("strategy":"group","group_size":128})", "null",
                                "naive-quantized"))
                .block,
            (Float8Spec::Block{.outputs = 1, .inputs = 128}));
}

TEST(QuantizedSpec, KvIsNotRoundedBesideFp8) {
  const auto config = [](const std::string& kv) {
    return R"({"quant_method":"compressed-tensors","format":"float-quantized","kv_cache_scheme":)" +
           kv +
           R"(,"config_groups":{"a":{"weights":{"num_bits":8,"type":"float"}},
                                "b":{"weights":{"num_bits":8,"type":"float","strategy":"channel"}}}})";
  };
  EXPECT_EQ(Float8SpecOf(config(R"({"num_bits":8,"type":"float","strategy":"tensor"})")),
            Float8Spec{});
  EXPECT_THAT(Message(Read(config(R"({"num_bits":8,"type":"int"})")).status()),
              HasSubstr(R"(kv_cache_scheme: "type" is "int")"));
  EXPECT_THAT(Message(Read(config("7")).status()), HasSubstr(R"("kv_cache_scheme" is 7)"));
}

TEST(QuantizedSpec, OfFp8RefusesWhatItCannotKeep) {
  const auto error = [](const std::string& text) { return Message(Read(text).status()); };
  const std::string alike = R"({"num_bits":8,"type":"float",)";
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"({"quant_method":"fp8","fmt":"e5m2"})", R"("fmt" is "e5m2", which is not supported)"},
           {R"({"quant_method":"modelopt"})",
            R"("quant_method" is "modelopt", which is not supported)"},
           {R"({"quant_method":"fp8","weight_block_size":[128,64]})",
            "supported: a multiple of 128 inputs"},
           {R"({"quant_method":"fp8","weight_block_size":128})",
            R"("weight_block_size" is 128; expected two sizes up to 1048576, as [128, 128])"},
           {R"({"quant_method":"fp8","weight_block_size":[128]})", "expected two sizes"},
           {R"({"quant_method":"fp8","weight_block_size":[0,128]})", "expected two sizes"},
           {R"({"quant_method":"fp8","weight_block_size":["a",128]})", "expected two sizes"},
           {Floats(R"({"num_bits":8,"type":"int"})", "null"), R"(weights: "type" is "int")"},
           {Floats(R"({"num_bits":4,"type":"float"})", "null"), R"(weights: "num_bits" is 4)"},
           {Floats(alike + R"("dynamic":true})", "null"), R"(weights: "dynamic" is true)"},
           {Floats(alike + R"("symmetric":false})", "null"), R"(weights: "symmetric" is false)"},
           {Floats(alike + R"("strategy":"token"})", "null"), R"(weights: "strategy" is "token")"},
           {Floats(alike + R"("strategy":"block"})", "null"),
            R"(weights: "block_structure" is missing; expected two sizes)"},
           {Floats(alike + R"("strategy":"group"})", "null"),
            R"("group_size" is missing; expected a size)"},
           {Floats(alike + R"("strategy":"group","group_size":64})", "null"),
            "supported: a multiple of 128 inputs"},
           {Floats(alike + R"("group_size":64})", "null"), "supported: a multiple of 128 inputs"},
           {Floats(alike + R"("strategy":"block","block_structure":"128x128"})", "null"),
            R"("block_structure" is "128x128"; expected two sizes)"},
           {Floats("null", "null"), R"("weights" is null; expected an object)"},
           {Floats(alike + R"("strategy":"tensor"})", R"({"num_bits":8,"type":"int"})"),
            R"(input_activations: "type" is "int")"},
           {Floats(alike + R"("strategy":"tensor"})", R"({"num_bits":4,"type":"float"})"),
            R"(input_activations: "num_bits" is 4)"}}) {
    EXPECT_THAT(error(text), HasSubstr(expected)) << text;
  }
}

}  // namespace
}  // namespace aril::internal
