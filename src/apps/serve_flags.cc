#include "apps/serve_flags.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "apps/demo_folder.h"
#include "apps/flags.h"
#include "apps/speculative_config.h"
#include "gateway/auth.h"

namespace aril {
namespace {

// vLLM takes a JSON list here. CLI11 takes such a list apart, but leaves spaces and quotes.
std::string Unquote(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \"");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \"") + 1 - begin);
}

StatusOr<gateway::CorsPolicy> MakeCorsPolicy(const std::vector<std::string>& texts) {
  std::vector<std::string> origins;
  for (const std::string& text : texts) origins.push_back(Unquote(text));
  auto policy = gateway::CorsPolicy::Create(std::move(origins));
  if (!policy.ok()) return InvalidArgument("--allowed-origins: " + Message(policy.status()));
  return policy;
}

// So that one tenant's pins leave others the longest context with an adapter of half of the rest.
constexpr double kSharedPinShare = 0.5;

bool HasSeveralTenants(const std::vector<gateway::ApiKey>& keys) {
  return std::ranges::any_of(
      keys, [&](const gateway::ApiKey& key) { return key.tenant != keys.front().tenant; });
}

Status ResolveModel(const ServeFlags& flags, ServeOptions& options) {
  if (flags.demo) {
    ASSIGN_OR_RETURN(const std::string folder, FindDemoFolder());
    options.runner.model_dir = folder + "/base";
    if (options.adapters_dir.empty()) options.adapters_dir = folder + "/adapters";
    if (options.text.names.empty()) options.text.names = {"demo"};
  }
  options.text.model_dir = options.runner.model_dir;
  return OkStatus();
}

// Who may use the server, and how much.
Status ReadSettings(const ServeFlags& flags, ServeOptions& options) {
  if (!flags.api_key.empty()) options.api_keys = {{.key = flags.api_key}};
  if (!options.api_key_file.empty()) {
    options.watches.api_keys = FileWatch({options.api_key_file});
    auto keys = gateway::ReadApiKeyFile(options.api_key_file);
    if (!keys.ok()) return Annotate(keys.status(), "--api-key-file");
    options.api_keys = *std::move(keys);
  }
  if (!options.tenant_limits_file.empty()) {
    options.watches.tenant_limits = FileWatch({options.tenant_limits_file});
    auto limits = gateway::ReadTenantLimitsFile(options.tenant_limits_file);
    if (!limits.ok()) return Annotate(limits.status(), "--tenant-limits-file");
    options.tenant_limits = *std::move(limits);
  }
  // What is empty is not there, and stays so.
  options.watches.certificate = FileWatch({options.http.ssl_certfile, options.http.ssl_keyfile});
  return OkStatus();
}

}  // namespace

void AddModelFlags(CLI::App& app, ServeFlags& flags) {
  ServeOptions& options = flags.options;
  app.option_defaults()->group("Models");
  AddFlag(app, "--model", options.runner.model_dir,
          "Folder of the base model (Hugging Face layout)");
  AddFlag(app, "--adapters", options.adapters_dir,
          "Folder of adapters: each sub-folder with an adapter_config.json, under its name");
  AddFlag(app, "--lora-modules", options.lora_modules, "More adapters, as name=path")
      ->type_name("NAME=PATH");
  AddSwitch(app, "--demo", flags.demo,
            "Serve the small model that comes with Aril, and its eight adapters unless there is "
            "--adapters")
      ->excludes("--model");
}

void AddNameFlags(CLI::App& app, ServeFlags& flags) {
  ServeOptions& options = flags.options;
  app.option_defaults()->group("Models");
  AddFlag(app, "--served-model-name", options.text.names,
          "Names of the base model in requests [the folder's name]");
  AddFlag(app, "--chat-template", options.text.chat_template_file,
          "File with a chat template (Jinja) in place of the base model's")
      ->type_name("FILE");
  AddFlag(app, "--generation-config", options.text.generation_config,
          "Defaults of requests (temperature, top_k, ...): auto, what the model's "
          "generation_config.json states, or vllm, none")
      ->check(CLI::IsMember({"auto", "vllm"}));
}

void AddAdapterSourceFlags(CLI::App& app, ServeFlags& flags, const AdapterSourceHelp& help) {
  ServeOptions& options = flags.options;
  app.option_defaults()->group("Models");
  AddFlag(app, "--adapter-root", options.adapter_roots, help.roots)->type_name("DIR");
  AddFlag(app, "--state-dir", options.state_dir, help.state_dir)->type_name("DIR");
  AddSourceFlags(app, flags.sources);
}

void AddAdapterChangeFlags(CLI::App& app, ServeFlags& flags) {
  AddAdapterSourceFlags(
      app, flags,
      {.roots = "Folders beneath which clients may load adapters at run time [none: they may not]",
       .state_dir = "Folder in which the adapters that clients load are kept for the next start "
                    "[none: they are forgotten]"});
  app.option_defaults()->group("Models");
  AddSwitch(app, "--skip-bad-adapters", flags.options.skip_bad_adapters,
            "Leave out adapters that cannot be served, instead of ending");
  AddFlag(app, "--tenant-pin-share", flags.tenant_pin_share,
          "Most of the pool beside the longest context that one tenant's pinned adapters may take, "
          "e.g. 0.25; all tenants' together may take as much, or a half if that is more [0.5 if "
          "keys name several tenants, else 1]")
      ->type_name("FRACTION")
      ->default_str("");
}

void AddContextFlag(CLI::App& app, ServeFlags& flags) {
  app.option_defaults()->group("Engine");
  AddFlag(app, "--max-model-len", flags.max_model_len,
          "Longest prompt with its completion, in tokens [what the model allows]")
      ->check(AtLeastOne())
      ->default_str("");
}

void AddEngineFlags(CLI::App& app, ServeFlags& flags) {
  AddContextFlag(app, flags);
  LocalRunnerOptions& runner = flags.options.runner;
  app.option_defaults()->group("Engine");
  AddFlag(app, "--max-num-seqs", runner.max_num_seqs, "Most sequences in a batch");
  AddFlag(app, "--max-num-batched-tokens", runner.max_num_batched_tokens,
          "Most tokens computed in a step");
  AddFlag(app, "--max-lora-rank", runner.max_lora_rank, "Refuse adapters of a larger rank")
      ->check(CLI::Range(1, 512));
  runner.device = "auto";
  AddFlag(app, "--device", runner.device, "auto (the GPU if there is one), cpu or cuda");
  AddFlag(app, "--dtype", runner.dtype, "auto, float32, bfloat16, or float16 on a GPU");
  AddFlag(
      app, "--quantization", runner.quantization,
      "Of the base model's matrices: none, int8 or int4 (less memory; not quite the same "
      "answers), or nf4 (as QLoRA trained adapters on them); of a quantized checkpoint, all but "
      "int8 keep what is quantized as it is");
  AddFlag(app, "--isa", runner.isa, "Instruction set: auto, portable, avx2, avx512 or amx");
  AddSizeFlag(
      app, "--pool-bytes", runner.pool_bytes,
      "Memory for KV cache and adapters, e.g. 4GiB [what is useful, at most 40 % of what is "
      "free]");
  AddFlag(app, "--adapter-pool-share", runner.adapter_pool_share,
          "Most of the pool that adapters may take, used or idle, e.g. 0.5 for a half")
      ->type_name("FRACTION");
  AddFlag(app, "--kv-pool-share", runner.kv_pool_share,
          "Most of the pool that sequences may take; with --adapter-pool-share it splits the pool, "
          "which only comparisons want (cached prefixes do not count)")
      ->type_name("FRACTION");
  AddSizeFlag(
      app, "--adapter-host-cache", runner.adapter_host_cache_bytes,
      "Most bytes of adapters' files that stay open while nobody uses them, e.g. 8GiB; least "
      "recently used ones are closed [no bound]");
  AddOnOffSwitch(app, "--enable-prefix-caching", runner.enable_prefix_caching,
                 "Keep the KV pages of prompts and answers for requests that begin alike [on]");
  runner.drafts = PredictionsOnly();
  AddParsedFlag(app, "--speculative-config", runner.drafts, ParseSpeculativeConfig,
                "Guess the next tokens from what was said before, in steps of at most 12 rows, "
                "which changes no answer: JSON, "
                "e.g. {\"method\": \"ngram\", \"num_speculative_tokens\": 8} [only from "
                "predictions that requests bring, and on a CPU]")
      ->type_name("JSON");
  AddFlag(app, "--threads", runner.threads, "Threads that compute; 0: one per core")
      ->check(CLI::Range(0, 1024));
}

void AddHttpFlags(CLI::App& app, ServeFlags& flags) {
  ServeOptions& options = flags.options;
  app.option_defaults()->group("HTTP");
  AddFlag(app, "--host", options.http.host,
          "Address to listen on, or a name: then all of its addresses that this machine has");
  AddFlag(app, "--port", options.http.port, "Port to listen on; 0: any free one")
      ->check(CLI::Range(0, 65535));
  CLI::Option* key =
      AddFlag(app, "--api-key", flags.api_key, "Key that requests must carry")->check(NotEmpty());
  AddFlag(app, "--api-key-file", options.api_key_file,
          "File of keys, one per line, each with its tenant after a space; read again when it "
          "changes")
      ->check(NotEmpty())
      ->excludes(key);
  AddFlag(app, "--tenant-limits-file", options.tenant_limits_file,
          "File of what tenants may use, one per line: a tenant, or * for all others, and "
          "requests-per-minute=N, tokens-per-minute=N, concurrent-requests=N; read again when it "
          "changes [no limits]")
      ->check(NotEmpty());
  AddFlag(app, "--ssl-certfile", options.http.ssl_certfile,
          "Serve over TLS with this certificate chain (PEM); read again when it changes");
  AddFlag(app, "--ssl-keyfile", options.http.ssl_keyfile,
          "The certificate's private key (PEM) [in the certificate's file]")
      ->needs("--ssl-certfile");
  AddFlag(app, "--allowed-origins", flags.allowed_origins,
          "Origins whose pages may use the API from a browser, or `*` [none]")
      ->type_name("ORIGIN");
  AddFlag(app, "--max-connections", options.http.max_connections, "More are answered with 503")
      ->check(AtLeastOne());
  AddFlag(app, "--max-requests", options.max_in_flight,
          "Most requests in work or waiting; more are answered with 503")
      ->check(AtLeastOne());
  AddFlag(app, "--max-requests-per-tenant", options.max_in_flight_of_tenant,
          "Of them, one tenant's; more are answered with 429 [all; with --fair-share and keys of "
          "several tenants, half of them]")
      ->check(AtLeastOne());
  AddFlag(app, "--max-sequences-per-request", options.limits.max_sequences,
          "Most prompts times n of one request; of texts to embed or to classify, those computed "
          "at a time")
      ->check(AtLeastOne());
  AddSizeFlag(app, "--max-body-bytes", flags.max_body_bytes,
              "Largest request body; larger ones are answered with 413")
      ->default_str("16MiB");
  AddDurationFlag(
      app, "--drain-delay", options.drain_delay, "0s",
      "How long connections are still accepted after SIGTERM, while /ready says 503: as "
      "long as a load balancer needs to notice");
  AddDurationFlag(app, "--drain-timeout", options.drain_timeout, "30s",
                  "How long requests in work may take after that");
}

StatusOr<ServeOptions> ResolveServeOptions(const ServeFlags& flags) {
  if (flags.options.runner.model_dir.empty() && !flags.demo) {
    return InvalidArgument("--model is required (or --demo)");
  }
  ServeOptions options = flags.options;
  RETURN_IF_ERROR(ResolveModel(flags, options));
  if (flags.max_model_len > 0) options.runner.max_model_len = flags.max_model_len;
  if (flags.max_body_bytes == 0) {
    return InvalidArgument("--max-body-bytes is 0, which no request fits; give for example 16MiB");
  }
  if (flags.max_body_bytes) {
    options.limits.max_body_bytes = static_cast<size_t>(*flags.max_body_bytes);
    options.http.request.max_body_bytes = options.limits.max_body_bytes;
  }
  RETURN_IF_ERROR(ReadSettings(flags, options));
  const bool has_several_tenants = HasSeveralTenants(options.api_keys);
  options.runner.tenant_pin_share =
      flags.tenant_pin_share.value_or(has_several_tenants ? kSharedPinShare : 1);
  // Turns are no use to who is not let in.
  if (options.policies.is_fair && has_several_tenants && !options.max_in_flight_of_tenant) {
    options.max_in_flight_of_tenant = std::max<int64_t>(1, options.max_in_flight / 2);
  }
  ASSIGN_OR_RETURN(options.http.cors, MakeCorsPolicy(flags.allowed_origins));
  ASSIGN_OR_RETURN(options.sources, MakeSourcePolicy(flags.sources, &std::getenv));
  if (options.sources.allows_any() && options.state_dir.empty()) {
    return InvalidArgument(
        "--adapter-origin, --s3-endpoint and --hub-endpoint need --state-dir DIR: what is fetched "
        "is kept there");
  }
  return options;
}

}  // namespace aril
