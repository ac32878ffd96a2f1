#include "spec/lora_spec.h"

#include <map>

#include "base/file.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ModelSpec ModelOf(int64_t num_layers) {
  ModelSpec model;
  model.num_layers = num_layers;
  model.hidden_size = 2048;
  return model;
}

StatusOr<LoraSpec> Resolve(const Json& json, const ModelSpec& base = ModelOf(12),
                           const ModuleNaming& naming = kTextNaming) {
  ASSIGN_OR_RETURN(const LoraConfig config, ParseLoraConfig(json));
  return ResolveLora(config, base, naming);
}

// `members`: JSON members after "peft_type".
std::string ErrorOf(const std::string& members) {
  const auto json = Json::Parse(R"({"peft_type":"LORA",)" + members + "}");
  EXPECT_TRUE(json.ok()) << json.status();
  return Message(Resolve(*json).status());
}

// As transformers' models that also see have their text model since 4.52.
constexpr ModuleNaming kInside = {"model.language_model", "lm_head"};

// As transformers 5 has a mixture of experts.
constexpr ModuleNaming kParameters = {"model", "lm_head", ExpertsNaming::kParameters};

ModelSpec MixtureOf(int64_t num_layers) {
  ModelSpec model = ModelOf(num_layers);
  model.experts = ExpertsSpec{.count = 8, .per_token = 2};
  return model;
}

// Rank and scale by the module's name, that of a stack of experts being its parameter's.
using Modules = std::map<std::string, std::pair<int64_t, double>>;

bool IsStacked(const LoraSpec& spec, int64_t layer, Site site) {
  const auto& [gate_up, down] = spec.stacked[static_cast<size_t>(layer)];
  return site.projection() == Projection::kDown ? down : gate_up;
}

Modules ModulesOf(const LoraSpec& spec, const ModelSpec& base = ModelOf(12),
                  const ModuleNaming& naming = kTextNaming) {
  Modules modules;
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    for (const LinearModule& linear : base.LinearModules(layer)) {
      const LoraModule& module = spec.At(layer, linear.first);
      for (int64_t i = 0; i < linear.num_sites; ++i) {
        EXPECT_EQ(spec.At(layer, linear.At(i)), module);
      }
      const bool is_stacked = linear.first.is_of_expert() && IsStacked(spec, layer, linear.first);
      if (module.rank == 0 || is_stacked) continue;
      modules[naming.InLayer(layer, linear.path)] = {module.rank, module.scale};
    }
    for (size_t s = 0; s < kStackedExperts.size(); ++s) {
      if (!spec.stacked[static_cast<size_t>(layer)][s]) continue;
      const StackedExperts& stack = kStackedExperts[s];
      const LoraModule& first = spec.At(layer, stack.At(0, 0));
      for (int64_t expert = 0; expert < base.experts->count; ++expert) {
        for (int64_t i = 0; i < stack.num_projections; ++i) {
          EXPECT_EQ(spec.At(layer, stack.At(expert, i)), first);
        }
      }
      modules[naming.InLayer(layer, stack.path)] = {first.rank, first.scale};
    }
  }
  for (const auto& [name, module] : {std::pair(naming.Embedding(), spec.embedding),
                                     {std::string(naming.lm_head), spec.lm_head}}) {
    if (module.rank > 0) modules[name] = {module.rank, module.scale};
  }
  return modules;
}

Modules ModulesOf(const Json& expected) {
  Modules modules;
  for (const auto& [name, value] : *expected.AsObject()) {
    double scale = 0;
    EXPECT_TRUE(value.AsArray()->at(1).AsNumber(&scale));
    // A linear module's parameter is the module.
    const size_t parameter = name.rfind(".weight");
    modules[name.substr(0, parameter)] = {*value.AsArray()->at(0).AsInt(), scale};
  }
  return modules;
}

// tools/goldens/peft_targets.py: what PEFT makes of each configuration.
TEST(LoraSpec, FindsTheModulesThatPeftFinds) {
  const auto text = ReadFile(SourcePath("src/spec/testdata/peft_targets.json"), 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto golden = Json::Parse(*text);
  ASSERT_TRUE(golden.ok()) << golden.status();
  for (const Json& test : *golden->Find("cases")->AsArray()) {
    SCOPED_TRACE(test.Find("config")->Dump());
    ModelSpec model = ModelOf(*golden->Find("num_layers")->AsInt());
    const std::string base = test.Find("base") ? *test.Find("base")->AsString() : "llama";
    model.fused_modules = base == "phi3";
    if (base == "mixtral") model.experts = ExpertsSpec{.count = 8, .per_token = 2};
    // As the file's tensors would tell.
    model.qk_norm = model.output_norms = model.is_multimodal = base == "gemma3";
    const ModuleNaming naming = base == "gemma3"    ? kInside
                                : base == "mixtral" ? kParameters
                                                    : kTextNaming;
    const auto spec = Resolve(*test.Find("config"), model, naming);
    const Json* modules = test.Find("modules");
    if (modules == nullptr) {
      EXPECT_FALSE(spec.ok()) << "PEFT: " << *test.Find("refused")->AsString();
      continue;
    }
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(ModulesOf(*spec, model, naming), ModulesOf(*modules));
  }
}

// transformers before 4.52 had them elsewhere.
TEST(LoraSpec, FindsModulesByTheNamesThatTrainingHad) {
  const ModuleNaming before = {"language_model.model", "language_model.lm_head"};
  const auto resolve = [&](const std::string& target) {
    return Resolve(*Json::Parse(R"({"peft_type":"LORA","target_modules":")" + target + R"("})"),
                   ModelOf(12), before);
  };
  const auto found = resolve(R"(language_model\\.model\\.layers\\.3\\..*q_proj)");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->At(3, Projection::kQ).rank, 8);
  EXPECT_THAT(Message(resolve(R"(model\\.layers\\..*q_proj)").status()), HasSubstr("no module"));
  const auto head =
      Resolve(*Json::Parse(R"({"peft_type":"LORA","target_modules":["language_model.lm_head"]})"),
              ModelOf(12), before);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->lm_head.rank, 8);
}

// As AutoModel has them.
TEST(LoraSpec, FindsTheModulesOfADecoderAlone) {
  const auto resolve = [&](const std::string& fields) {
    return Resolve(*Json::Parse(R"({"peft_type":"LORA",)" + fields + "}"), ModelOf(12),
                   kDecoderNaming);
  };
  // Everything but embed_tokens, and no lm_head, which there is not.
  const auto all = resolve(R"("target_modules":".*_proj|.*head|")");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->At(3, Projection::kDown).rank, 8);
  EXPECT_EQ(all->lm_head.rank, 0);
  const auto one = resolve(R"("target_modules":["layers.3.self_attn.q_proj","embed_tokens"])");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->At(3, Projection::kQ).rank, 8);
  EXPECT_EQ(one->At(4, Projection::kQ).rank, 0);
  EXPECT_EQ(one->embedding.rank, 8);
  EXPECT_THAT(Message(resolve(R"("target_modules":["norm"])").status()), HasSubstr("no module"));
  EXPECT_THAT(Message(resolve(R"("target_modules":["q_proj","norm"])").status()),
              HasSubstr("norm, which is not linear"));
  EXPECT_THAT(Message(resolve(R"("target_modules":["a"])").status()),
              HasSubstr("e.g. layers.0.self_attn.q_proj, embed_tokens"));
  EXPECT_THAT(
      Message(resolve(R"("target_modules":["q_proj"],"modules_to_save":["lm_head"])").status()),
      HasSubstr(R"("lm_head"; supported are embed_tokens)"));
}

// What is saved of what sees does nothing for text; of a text model there is no such thing.
TEST(LoraSpec, SavedModulesOfVisionAreLeftOut) {
  const auto json = Json::Parse(
      R"({"peft_type":"LORA","target_modules":["q_proj"],
          "modules_to_save":["multi_modal_projector","vision_tower.encoder","lm_head"]})");
  const auto spec = Resolve(*json, ModelOf(12), kInside);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->replaces_lm_head);
  EXPECT_THAT(Message(Resolve(*json).status()),
              HasSubstr(R"("modules_to_save" names "multi_modal_projector")"));
  EXPECT_THAT(ErrorOf(R"("target_modules":["q_proj"],"modules_to_save":["vision_towers"])"),
              HasSubstr("vision_towers"));
}

// Phi-3's modules are named where a name is refused.
TEST(LoraSpec, SaysWhatModulesThereAre) {
  ModelSpec model = ModelOf(12);
  model.fused_modules = true;
  const auto spec =
      Resolve(*Json::Parse(R"({"peft_type":"LORA","target_modules":["q_proj"]})"), model);
  EXPECT_THAT(Message(spec.status()),
              HasSubstr("it has qkv_proj, o_proj, gate_up_proj, down_proj, e.g. "
                        "model.layers.0.self_attn.qkv_proj"));
}

TEST(LoraSpec, MaxRankIsThatOfAModuleThatExists) {
  const auto json = Json::Parse(R"({"peft_type":"LORA","r":64,"target_modules":["q_proj"],
                                    "rank_pattern":{"q_proj":4,"up_proj":128}})");
  EXPECT_EQ(Resolve(*json)->MaxRank(), 4);
}

// PEFT leaves such names alone as long as another one matches.
TEST(LoraSpec, ListsTheNamesThatMatchNothing) {
  for (const std::string name :
       {"q_prpj", "c_attn", "", "proj", "all-linear", "model.layers.31.self_attn.q_proj",
        "attn.q_proj", "self_attn.up_proj", "_proj", "q_proj."}) {
    const auto spec = Resolve(
        *Json::Parse(R"({"peft_type":"LORA","target_modules":["q_proj",")" + name + R"("]})"));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->unmatched_targets, JsonQuote(name));
    EXPECT_EQ(ModulesOf(*spec).size(), 12) << name << " adds nothing";
  }
}

TEST(LoraSpec, RefusesNamesOfWhichNoneMatches) {
  EXPECT_THAT(ErrorOf(R"("target_modules":["a","b"])"),
              HasSubstr(R"("target_modules" names "a", "b", which no module)"));
  EXPECT_THAT(ErrorOf(R"("target_modules":["a"],"modules_to_save":["lm_head"])"),
              HasSubstr("which no module"));
}

// As PEFT did it on transformers 4.
TEST(LoraSpec, FindsExpertsThatAreModules) {
  const ModelSpec model = MixtureOf(12);
  const auto resolve = [&](const std::string& members, ExpertsNaming experts) {
    return Resolve(*Json::Parse(R"({"peft_type":"LORA",)" + members + "}"), model,
                   {"model", "lm_head", experts});
  };
  constexpr auto kModules = ExpertsNaming::kModules;
  constexpr auto kMixtral = ExpertsNaming::kMixtralModules;
  const auto all = resolve(R"("target_modules":"all-linear")", kModules);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(ModulesOf(*all, model).size(), 12 * (4 + 1 + 3 * 8U));
  EXPECT_EQ(all->At(11, Projection::kGate).rank, 0) << "no layer has one of its own";

  const auto some = resolve(R"("target_modules":["up_proj","gate"],
      "rank_pattern":{"experts.7.up_proj":3},"exclude_modules":["1.up_proj"])",
                            kModules);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(some->At(5, Site::OfExpert(0, Projection::kUp)), (LoraModule{8, 1}));
  EXPECT_EQ(some->At(5, Site::OfExpert(7, Projection::kUp)).rank, 3);
  EXPECT_EQ(some->At(5, Site::OfExpert(1, Projection::kUp)).rank, 0);
  EXPECT_EQ(some->At(5, Site::OfExpert(0, Projection::kGate)).rank, 0);
  EXPECT_EQ(some->At(5, Site::Router()).rank, 8);

  const auto mixtral =
      resolve(R"json("target_modules":".*\\.block_sparse_moe\\.(gate|experts\\.\\d+\\.w[13])")json",
              kMixtral);
  ASSERT_TRUE(mixtral.ok()) << mixtral.status();
  EXPECT_EQ(ModulesOf(*mixtral, model).size(), 12 * (1 + 2 * 8U));
  EXPECT_EQ(mixtral->At(0, Site::OfExpert(3, Projection::kUp)).rank, 8) << "w3";
  EXPECT_EQ(mixtral->At(0, Site::OfExpert(3, Projection::kDown)).rank, 0) << "w2";

  const auto list = resolve(R"("target_modules":["experts","up_proj"])", kModules);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->unmatched_targets, "\"experts\"");

  EXPECT_THAT(Message(resolve(R"("target_modules":["w1"])", kModules).status()),
              HasSubstr("v_proj, o_proj, gate, gate_proj, up_proj, down_proj, e.g. model."));
  EXPECT_THAT(Message(resolve(R"("target_modules":["up_proj"])", kMixtral).status()),
              HasSubstr("o_proj, gate, w1, w3, w2, e.g. model."));
  EXPECT_THAT(
      Message(resolve(R"("target_modules":["up_proj"])", ExpertsNaming::kParameters).status()),
      HasSubstr("q_proj, k_proj, v_proj, o_proj, e.g. model."));
  EXPECT_THAT(Message(resolve(R"("target_modules":["3.up_proj"],"target_parameters":["up_proj",
                              "gate_up_proj"])",
                              kModules)
                          .status()),
              HasSubstr("both name model.layers.0.mlp.experts.gate_up_proj"));
}

// Where experts are parts of parameters, they have none of their own.
TEST(LoraSpec, ParametersAreWhole) {
  const auto resolve = [](const std::string& members, ExpertsNaming experts) {
    return Resolve(*Json::Parse(R"({"peft_type":"LORA",)" + members + "}"), MixtureOf(2),
                   {"model", "lm_head", experts});
  };
  const std::string some =
      R"("target_modules":["q_proj"],"target_parameters":["experts.down_proj","down_proj.weight"])";
  const auto whole = resolve(some, ExpertsNaming::kParameters);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->unmatched_targets, "\"down_proj.weight\"");
  EXPECT_EQ(ModulesOf(*whole, MixtureOf(2)).size(), 2 * 2U);
  const auto mixtral = resolve(some, ExpertsNaming::kMixtralModules);
  ASSERT_TRUE(mixtral.ok()) << mixtral.status();
  EXPECT_EQ(ModulesOf(*mixtral, MixtureOf(2)).size(), 2U);

  EXPECT_THAT(ErrorOf(R"("target_modules":["q_proj"],"target_parameters":["q_proj.weight"])"),
              HasSubstr("both name model.layers.0.self_attn.q_proj"));
  const auto pattern = Json::Parse(
      R"({"peft_type":"LORA","target_modules":".*q_proj","target_parameters":["in vain"]})");
  EXPECT_TRUE(Resolve(*pattern).ok()) << Resolve(*pattern).status();
}

// An adapter knows nothing of the sites after its last.
TEST(LoraSpec, HasNoMoreSitesThanItAdapts) {
  const auto resolve = [](const std::string& target) {
    return Resolve(*Json::Parse(R"({"peft_type":"LORA","target_modules":[")" + target + R"("]})"),
                   MixtureOf(2));
  };
  EXPECT_EQ(resolve("0.self_attn.q_proj")->layers[1].size(), 0U);
  EXPECT_EQ(resolve("0.self_attn.q_proj")->layers[0].size(), size_t{kNumProjections});
  EXPECT_EQ(resolve("mlp.gate")->layers[0].size(), kNumProjections + 1U);
  EXPECT_EQ(resolve("1.mlp.experts.2.gate_proj")->layers[1].size(), kNumProjections + 1 + 3 * 3U);
  EXPECT_EQ(resolve("1.mlp.experts.2.gate_proj")->At(1, Site::OfExpert(7, Projection::kUp)).rank,
            0);
}

TEST(LoraSpec, SaysWhichParametersThereAre) {
  EXPECT_THAT(ErrorOf(R"("target_modules":[],"target_parameters":["w"])"),
              AllOf(HasSubstr("\"w\", which no matrix"), HasSubstr("self_attn.q_proj.weight")));
  const auto config =
      Json::Parse(R"({"peft_type":"LORA","target_modules":[],"target_parameters":["up_proj"]})");
  EXPECT_THAT(Message(Resolve(*config, MixtureOf(4), kParameters).status()),
              AllOf(HasSubstr("model.layers.0.mlp.gate.weight"),
                    HasSubstr("model.layers.0.mlp.experts.down_proj")));
}

// Each is tried on every module, of which a mixture has many.
TEST(LoraSpec, BoundsSearchesByTheNumberOfModules) {
  Json::Object patterns;
  for (int i = 0; i < 40; ++i) patterns.emplace_back(StrCat("x", i, "[ab]"), 4);
  const Json config = Json::Object{
      {"peft_type", "LORA"}, {"target_modules", Json::Array{"q_proj"}}, {"rank_pattern", patterns}};
  EXPECT_TRUE(Resolve(config, ModelOf(48)).ok());
  ModelSpec model = ModelOf(48);
  model.experts = ExpertsSpec{.count = 128, .per_token = 8};
  EXPECT_THAT(Message(Resolve(config, model).status()),
              HasSubstr("more than 27 regular expressions"));
  Json::Array layers;
  for (int i = 0; i < 40; ++i) layers.emplace_back(StrCat("x", i));
  const Json of_layers = Json::Object{{"peft_type", "LORA"},
                                      {"target_modules", Json::Array{"q_proj"}},
                                      {"layers_to_transform", 3},
                                      {"layers_pattern", layers}};
  EXPECT_THAT(Message(Resolve(of_layers, model).status()),
              HasSubstr("\"layers_pattern\" has 40 patterns, which are too many"));
}

// Neither does PEFT adapt them.
TEST(LoraSpec, RefusesNamesOfModulesThatAreNotLinear) {
  for (const char* name : {"norm", "layers", "self_attn", "mlp", "input_layernorm", "7",
                           "model.layers.3.mlp.act_fn"}) {
    EXPECT_THAT(ErrorOf(StrCat(R"("target_modules":["q_proj",")", name, R"("])")),
                HasSubstr("which is not linear"))
        << name;
  }
}

TEST(LoraSpec, RefusesNormsWhereTheModelHasThem) {
  ModelSpec model = ModelOf(12);
  for (const char* name : {"self_attn.q_norm", "pre_feedforward_layernorm"}) {
    const auto config = ParseLoraConfig(Json::Object{
        {"peft_type", "LORA"}, {"target_modules", Json::Array{"q_proj", std::string(name)}}});
    ASSERT_TRUE(config.ok()) << config.status();
    model.qk_norm = model.output_norms = false;
    EXPECT_TRUE(ResolveLora(*config, model).ok()) << name << " matches nothing, as with PEFT";
    model.qk_norm = model.output_norms = true;
    EXPECT_THAT(Message(ResolveLora(*config, model).status()), HasSubstr("which is not linear"));
  }
}

TEST(LoraSpec, FindsTheModulesOutsideOfTheLayers) {
  const auto resolve = [](const std::string& members) {
    const auto json = Json::Parse(R"({"peft_type":"LORA","r":4,"lora_alpha":8,)" + members + "}");
    const auto spec = Resolve(*json);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return *spec;
  };
  const LoraModule adapted{4, 2.0};
  for (const char* targets : {R"(["q_proj","lm_head"])", R"x(".*(q_proj|lm_head)|lm_head")x"}) {
    const LoraSpec spec = resolve(StrCat(R"("target_modules":)", targets));
    EXPECT_EQ(spec.lm_head, adapted) << targets;
    EXPECT_EQ(spec.embedding, LoraModule());
    EXPECT_EQ(spec.At(3, Projection::kQ), adapted);
    EXPECT_TRUE(spec.can_be_weighted());
  }
  for (const char* targets : {R"(["model.embed_tokens","v_proj"])", R"(["embed_tokens"])"}) {
    const LoraSpec spec = resolve(StrCat(R"("target_modules":)", targets));
    EXPECT_EQ(spec.embedding, adapted) << targets;
    EXPECT_EQ(spec.lm_head, LoraModule());
    EXPECT_EQ(spec.MaxRank(), 4);
  }
  EXPECT_EQ(
      resolve(R"("target_modules":["q_proj","lm_head"],"exclude_modules":["lm_head"])").lm_head,
      LoraModule());
  EXPECT_EQ(resolve(R"("target_modules":"all-linear")").lm_head, LoraModule()) << "as in PEFT";
  const LoraSpec patterns = resolve(
      R"("target_modules":["lm_head","q_proj"],"rank_pattern":{"lm_head":16},"use_dora":true)");
  EXPECT_EQ(patterns.lm_head, (LoraModule{16, 0.5}));
  EXPECT_TRUE(patterns.use_dora);
  EXPECT_FALSE(patterns.can_be_weighted());
}

// It would not fit a page of the pool.
TEST(LoraSpec, TheEmbeddingsRankIsBoundedByTheHiddenSize) {
  const auto config = ParseLoraConfig(
      *Json::Parse(R"({"peft_type":"LORA","r":65,"target_modules":["embed_tokens"]})"));
  ASSERT_TRUE(config.ok());
  ModelSpec base = ModelOf(2);
  base.hidden_size = 64;
  EXPECT_THAT(Message(ResolveLora(*config, base).status()),
              HasSubstr("is 65, more than the base model's hidden_size of 64"));
  base.hidden_size = 65;
  EXPECT_TRUE(ResolveLora(*config, base).ok());
}

TEST(LoraSpec, FindsTheModulesThatAreSaved) {
  const auto resolve = [](const std::string& saved) {
    return Resolve(*Json::Parse(
        R"({"peft_type":"LORA","target_modules":["q_proj"],"modules_to_save":)" + saved + "}"));
  };
  for (const auto& [saved, embedding, head] : {std::tuple(R"(["lm_head"])", false, true),
                                               {R"(["model.embed_tokens"])", true, false},
                                               {R"(["lm_head","embed_tokens"])", true, true},
                                               {"null", false, false}}) {
    const auto spec = resolve(saved);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->replaces_embedding, embedding) << saved;
    EXPECT_EQ(spec->replaces_lm_head, head) << saved;
    EXPECT_EQ(spec->can_be_weighted(), !embedding && !head);
  }
  EXPECT_THAT(Message(resolve(R"(["norm"])").status()),
              HasSubstr(R"("modules_to_save" names "norm"; supported are model.embed_tokens and)"));
  EXPECT_THAT(Message(resolve(R"("lm_head")").status()), HasSubstr("a list of names"));
  EXPECT_THAT(ErrorOf(R"("target_modules":["lm_head"],"modules_to_save":["lm_head"])"),
              HasSubstr("name the same module"));
}

// PEFT names the heads of all architectures, or, before it did, none.
TEST(LoraSpec, AClassifierHasAHeadWhateverItsConfigSaves) {
  const auto resolve = [](const std::string& saved, const char* task = "SEQ_CLS") {
    return Resolve(
        *Json::Parse(StrCat(R"({"peft_type":"LORA","target_modules":["q_proj"],)",
                            R"("task_type":")", task, R"(","modules_to_save":)", saved, "}")));
  };
  for (const char* saved : {"null", R"(["classifier","score"])", R"(["score"])",
                            R"(["classifier","score","embed_tokens"])"}) {
    const auto spec = resolve(saved);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_TRUE(spec->is_classifier) << saved;
    EXPECT_FALSE(spec->can_be_weighted()) << saved;
  }
  EXPECT_TRUE(resolve(R"(["classifier","embed_tokens"])")->replaces_embedding);
  EXPECT_FALSE(resolve("null", "CAUSAL_LM")->is_classifier);
  EXPECT_THAT(Message(resolve(R"(["score"])", "CAUSAL_LM").status()),
              HasSubstr(R"("modules_to_save" names "score")"));
  EXPECT_THAT(Message(resolve(R"(["score","norm"])").status()),
              HasSubstr(R"("modules_to_save" names "norm")"));
}

TEST(LoraSpec, RefusesBadExpressions) {
  EXPECT_THAT(ErrorOf(R"("target_modules":".*(q_proj")"),
              AllOf(HasSubstr("\"target_modules\""), HasSubstr("does not compile")));
  EXPECT_THAT(ErrorOf(R"("target_modules":"m{,3}.*")"), HasSubstr("write {0,n}"));
  EXPECT_THAT(ErrorOf(R"("target_modules":["q_proj"],"exclude_modules":"[")"),
              HasSubstr("\"exclude_modules\""));
  EXPECT_THAT(ErrorOf(R"("target_modules":["q_proj"],"rank_pattern":{"(":4})"),
              HasSubstr("\"rank_pattern\""));
  EXPECT_THAT(ErrorOf(R"("target_modules":"((((.*)*)*)*)*[!?]")"),
              HasSubstr("backtracks too often"));
  EXPECT_THAT(ErrorOf(R"("target_modules":["q_proj"],"alpha_pattern":{"((((.*)*)*)*)*[!?]":4})"),
              HasSubstr("backtracks too often"));
  EXPECT_THAT(ErrorOf(R"("target_modules":["q_proj"],"layers_to_transform":[1],)"
                      R"("layers_pattern":["layers_","((((.*)*)*)*)*[!?]"])"),
              AllOf(HasSubstr("\"layers_pattern\""), HasSubstr("backtracks too often")));
}

// `count` patterns that are all alike but for their numbers, which follow `pattern`.
std::string PatternsOf(size_t count, const std::string& pattern) {
  std::vector<std::string> members;
  for (size_t i = 0; i < count; ++i)
    members.push_back(StrCat(JsonQuote(pattern + StrCat(i)), ":4"));
  return R"("target_modules":["q_proj"],"rank_pattern":{)" + Join(members, ",") + "}";
}

// Each is tried on every module, so that a file of them could keep a thread busy for minutes.
TEST(LoraSpec, BoundsTheExpressionsButNotTheNames) {
  EXPECT_EQ(ErrorOf(PatternsOf(64, ".*x+")), "");
  EXPECT_THAT(ErrorOf(PatternsOf(65, ".*x+")),
              HasSubstr("\"rank_pattern\" has more than 64 regular expressions"));
  EXPECT_EQ(ErrorOf(PatternsOf(2048, "model.layers.3\\.mlp.x-")), "");
}

TEST(NamePattern, NamesAreComparedAsTheExpressionsThatTheyAre) {
  const char* const modules[] = {"model.layers.1.self_attn.q_proj", "model.layers.11.mlp.up_proj",
                                 "lm_head", "model.embed_tokens"};
  const char* const keys[] = {"q_proj",
                              "proj",
                              "self.attn.q_proj",
                              R"(self\.attn.q_proj)",
                              R"(1\.self_attn.q_proj)",
                              "1.mlp.up_proj",
                              "model.layers.1.self_attn.q_proj",
                              "xmodel.layers.1.self_attn.q_proj",
                              ".lm_head",
                              "lm_head",
                              "m_head",
                              "......d",
                              "",
                              ".",
                              "Q_PROJ",
                              "model.embed_tokens",
                              "embed-tokens"};
  for (const char* key : keys) {
    const auto name = internal::NamePattern::Make(key);
    // A group that changes nothing makes it no name.
    const auto regex = internal::NamePattern::Make(StrCat("(?:", key, ")"));
    ASSERT_TRUE(name.ok() && regex.ok());
    EXPECT_TRUE(name->is_name());
    EXPECT_FALSE(regex->is_name());
    for (const char* module : modules) {
      EXPECT_EQ(name->Matches(module), regex->Matches(module)) << key << " on " << module;
    }
  }
}

}  // namespace
}  // namespace aril
