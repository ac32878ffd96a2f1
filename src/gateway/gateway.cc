#include "gateway/gateway.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/strings.h"
#include "gateway/adapter_description.h"
#include "gateway/adapters_api.h"
#include "gateway/anthropic_messages.h"
#include "gateway/counting_responder.h"
#include "gateway/models_api.h"
#include "gateway/openapi.h"
#include "gateway/responses.h"
#include "gateway/text.h"
#include "gateway/to_response.h"
#include "gateway/tokenize_api.h"
#include "gateway/upload.h"

namespace aril::gateway {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::string_view kAdapterPrefix = "/v1/adapters/";
constexpr std::string_view kResponsePrefix = "/v1/responses/";
// Adapters that wait to be loaded or unloaded; more are answered with 503.
constexpr size_t kMaxAdapterChanges = 256;
// Uploads at the same time, of all tenants and of one; more are answered with 503.
constexpr int kMaxUploads = 16;
constexpr int kMaxUploadsOfTenant = 4;
// Threads that open the files of adapters whose requests wait for that: a folder that is served
// where it lies is digested, and DoRA reads what it adapts of the base model, about a second each.
constexpr size_t kOpeningThreads = 4;
// Of a body that nobody asked for: some clients and proxies add one to probes and preflights.
constexpr size_t kMaxUselessBytes = 4 << 10;
// What a multipart body has beyond its parts' bytes.
constexpr size_t kMultipartBytes = 64 << 10;

// What a library throws (out of memory above all) harms this request alone.
template <typename Function>
std::optional<HttpResponse> AnswerSafely(const Function& function, const ApiCall& call,
                                         const RequestContext& context) {
  try {
    return function(call.request.body, context);
  } catch (const std::exception& exception) {
    LogError(StrCat("a request could not be answered: ", exception.what()));
    return ErrorResponse(FromStatus(Internal("The request could not be processed.")),
                         call.error_style());
  }
}

bool HasBody(const HttpRequest& head) {
  const std::string_view length = FindHeader(head.headers, "Content-Length");
  return (!length.empty() && length != "0") ||
         !FindHeader(head.headers, "Transfer-Encoding").empty();
}

std::string AdapterName(const HttpRequest& request) {
  return PercentDecode(std::string_view(request.path).substr(kAdapterPrefix.size())).value_or("");
}

ApiError UnknownPath(const HttpRequest& request) {
  return {.status = 404,
          .message = "There is no " + request.path + " here. docs/api.md lists what there is.",
          .param = "",
          .code = ""};
}

HttpResponse WrongMethod(const HttpRequest& request, const std::string& allowed) {
  HttpResponse response = ErrorResponse(
      {.status = 405,
       .message = request.path + " takes " + allowed + ", not " + request.method + ".",
       .param = "",
       .code = ""},
      ErrorStyleOf(request.path));
  response.headers.emplace_back("Allow", allowed);
  return response;
}

ApiError WrongKey() {
  return {.status = 401,
          .message =
              "Incorrect API key provided. Send `Authorization: Bearer KEY` or `X-Api-Key: KEY`.",
          .param = "",
          .code = "invalid_api_key"};
}

}  // namespace

struct Gateway::Route {
  std::string_view path;  // a prefix if it ends with '/', behind whole ones; a line for each method
  const char* method;
  RouteHandler handler;
  // Probes and Prometheus carry no key; what they see is for operators and names no tenant's data
  // but adapter names.
  bool needs_key = true;
  bool needs_model = true;
};

// What there is for a path, whatever the method.
struct Gateway::FoundRoute {
  const Route* route = nullptr;  // of the request's method if there is one
  bool takes_method = false;
  std::string methods;
};

Gateway::FoundRoute Gateway::FindRoute(const HttpRequest& request) {
  static constexpr Route kRoutes[] = {
      {"/health", "GET", &Gateway::HandleHealth, false, false},
      {"/ready", "GET", &Gateway::HandleReady, false, false},
      {"/version", "GET", &Gateway::HandleVersion, false, false},
      {"/metrics", "GET", &Gateway::HandleMetrics, false, false},
      {"/openapi.json", "GET", &Gateway::HandleOpenApi, false, false},
      {"/v1/models", "GET", &Gateway::HandleModels},
      {kModelPrefix, "GET", &Gateway::HandleModel},
      {"/v1/completions", "POST", &Gateway::HandleRequest<Endpoint::kCompletions>},
      {"/v1/chat/completions", "POST", &Gateway::HandleRequest<Endpoint::kChat>},
      {"/v1/responses", "POST", &Gateway::HandleRequest<Endpoint::kResponses>},
      {"/v1/responses/input_tokens", "POST", &Gateway::HandleWithModel<CountInputTokens>},
      {"/v1/messages", "POST", &Gateway::HandleRequest<Endpoint::kMessages>},
      {"/v1/messages/count_tokens", "POST", &Gateway::HandleWithModel<CountMessagesTokens>},
      {"/v1/embeddings", "POST", &Gateway::HandleRequest<Endpoint::kEmbeddings>},
      {"/v1/classify", "POST", &Gateway::HandleRequest<Endpoint::kClassify>},
      {"/classify", "POST", &Gateway::HandleRequest<Endpoint::kClassify>},  // as in vLLM
      {kResponsePrefix, "GET", &Gateway::HandleKeptResponse, true, false},
      {kResponsePrefix, "POST", &Gateway::HandleKeptResponse, true, false},
      {kResponsePrefix, "DELETE", &Gateway::HandleKeptResponse, true, false},
      {"/v1/adapters", "GET", &Gateway::HandleAdapters},
      {kAdapterPrefix, "GET", &Gateway::HandleAdapter},
      {kAdapterPrefix, "PUT", &Gateway::HandlePutAdapter},
      {kAdapterPrefix, "DELETE", &Gateway::HandleDeleteAdapter},
      {"/v1/load_lora_adapter", "POST", &Gateway::HandleLoadAdapter},
      {"/v1/unload_lora_adapter", "POST", &Gateway::HandleUnloadAdapter},
      {"/tokenize", "POST", &Gateway::HandleWithModel<Tokenize>},
      {"/detokenize", "POST", &Gateway::HandleWithModel<Detokenize>},
  };
  // Else what is there would be taken for what lies beneath another path.
  static_assert(std::ranges::none_of(kRoutes, [](const Route& prefix) {
    return prefix.path.back() == '/' && std::ranges::any_of(kRoutes, [&](const Route& route) {
             return &route > &prefix && route.path.back() != '/' &&
                    route.path.starts_with(prefix.path);
           });
  }));
  FoundRoute found;
  for (const Route& route : kRoutes) {
    const bool is_prefix = route.path.back() == '/';
    if (request.path != route.path && !(is_prefix && request.path.starts_with(route.path)))
      continue;
    // A path that is there stands for itself alone.
    if (is_prefix && found.route != nullptr && found.route->path.back() != '/') continue;
    found.methods += StrCat(found.methods.empty() ? "" : ", ", route.method);
    found.takes_method |= request.method == route.method;
    if (found.route == nullptr || request.method == route.method) found.route = &route;
  }
  return found;
}

Gateway::Gateway(GatewayOptions options)
    : options_(std::move(options)),
      api_keys_(options_.api_keys),
      completions_({.limits = options_.limits,
                    .max_in_flight = options_.max_in_flight,
                    .max_in_flight_of_tenant = options_.max_in_flight_of_tenant,
                    .tenant_limits = options_.tenant_limits,
                    .clock = options_.clock,
                    .metrics = options_.metrics,
                    .post = options_.post,
                    .post_after = options_.post_after,
                    .max_load_wait = options_.max_load_wait,
                    .work = &work_,
                    .openings = &openings_,
                    .random = options_.random}),
      upload_slots_(kMaxUploads, kMaxUploadsOfTenant),
      uploads_(kMaxUploads),  // of each, one piece at a time
      openings_({.max_length = static_cast<size_t>(options_.max_in_flight),
                 .num_threads = kOpeningThreads}),
      work_(static_cast<size_t>(options_.max_in_flight),
            static_cast<size_t>(options_.max_in_flight_of_tenant)),
      adapter_changes_(kMaxAdapterChanges) {}

void Gateway::Serve(std::shared_ptr<const ServedModel> model, wire::SequencePort* port,
                    AdapterLoader* loader, RemoteLoader* remote) {
  options_.metrics->SetAdapters(
      [catalog = model->catalog](AdapterId adapter) { return catalog->NameOf(adapter); },
      [catalog = model->catalog] { return catalog->num_adapters(); });
  if (remote != nullptr) {
    loads_ = std::make_unique<AdapterLoads>(options_.loads);
    remote_ = {.loader = remote,
               .loads = loads_.get(),
               .clock = options_.clock,
               .on_fetch = [metrics = options_.metrics](
                               std::string_view source, const Status& outcome, int64_t bytes,
                               Duration took) { metrics->OnFetch(source, outcome, bytes, took); }};
  }
  completions_.Serve(model, port, loads_.get());
  port_ = port;
  model_ = std::move(model);
  loader_ = loader;
  if (options_.sweep_interval > Duration::zero()) SweepExpired();
}

void Gateway::SweepExpired() {
  const bool queued = adapter_changes_.TryPush([catalog = model_->catalog, loads = loads_.get()] {
    std::unique_lock<std::mutex> lock;
    if (loads != nullptr) lock = std::unique_lock(loads->changes());
    const Status swept = catalog->Sweep();
    if (!swept.ok()) LogWarning("names that have expired could not be removed: " + Message(swept));
  });
  if (!queued) LogInfo("names that have expired are removed later: too many changes wait");
  options_.post_after(options_.sweep_interval, [this] { SweepExpired(); });
}

void Gateway::FailAll(const std::string& reason) { completions_.FailAll(Overloaded(reason)); }

void Gateway::Handle(HttpRequest request, std::shared_ptr<HttpResponder> responder) {
  const FoundRoute found = FindRoute(request);
  auto counting =
      std::make_shared<CountingResponder>(std::move(responder), *options_.metrics,
                                          found.route != nullptr ? found.route->path : "other");
  ApiCall call = {std::move(request), std::move(counting), kDefaultTenant};
  if (found.route == nullptr) return call.Fail(UnknownPath(call.request));
  Dispatch(found, std::move(call));
}

void Gateway::Dispatch(const FoundRoute& found, ApiCall call) {
  const Route& route = *found.route;
  if (route.needs_key) {
    auto tenant = api_keys_.FindTenant(call.request.headers);
    if (!tenant) return call.Fail(WrongKey());
    call.tenant = *std::move(tenant);
  }
  if (!found.takes_method) {
    return call.responder->Respond(WrongMethod(call.request, found.methods));
  }
  if (route.needs_model && model_ == nullptr) {
    return call.Fail(Overloaded("The model is still being loaded."));
  }
  (this->*route.handler)(std::move(call));
}

void Gateway::HandleHealth(ApiCall call) {
  if (model_ == nullptr) {
    return call.Fail(Overloaded("The model is still being loaded."));
  }
  call.responder->Respond(JsonResponse(Json::Object{{"status", "ok"}}));
}

void Gateway::HandleReady(ApiCall call) {
  if (draining_) {
    return call.Fail(Overloaded("The server is shutting down."));
  }
  if (port_ != nullptr) {
    if (const Status status = port_->Readiness(); !status.ok()) {
      return call.Fail(Overloaded(Message(status)));
    }
  }
  HandleHealth(std::move(call));
}

void Gateway::HandleVersion(ApiCall call) {
  call.responder->Respond(JsonResponse(Json::Object{{"version", options_.version}}));
}

void Gateway::HandleMetrics(ApiCall call) {
  call.responder->Respond({.content_type = std::string(kMetricsContentType),
                           .headers = {},
                           .body = options_.metrics->Scrape(options_.clock->UnixSeconds())});
}

void Gateway::HandleOpenApi(ApiCall call) {
  call.responder->Respond({.headers = {}, .body = OpenApiDescription(options_.version)});
}

void Gateway::HandleModels(ApiCall call) {
  AnswerOn(work_.ForAnswers(), std::make_shared<ApiCall>(std::move(call)),
           [](const std::string&, const RequestContext& context) {
             return JsonResponse(ListModels(context.model, context.tenant));
           });
}

void Gateway::HandleModel(ApiCall call) {
  const auto name = PercentDecode(std::string_view(call.request.path).substr(kModelPrefix.size()));
  call.responder->Respond(ToResponse(DescribeModel(*model_, call.tenant, name.value_or(""))));
}

void Gateway::HandleAdapters(ApiCall call) {
  AnswerOn(work_.ForAnswers(), std::make_shared<ApiCall>(std::move(call)),
           [](const std::string&, const RequestContext& context) {
             return JsonResponse(ListAdapters(context));
           });
}

void Gateway::HandleAdapter(ApiCall call) {
  call.responder->Respond(
      ToResponse(DescribeAdapter(AdapterName(call.request), ContextOf(call.tenant, *model_))));
}

BodyPlan Gateway::PlanBody(const HttpRequest& head) {
  if (!HasBody(head)) return {};
  const FoundRoute found = FindRoute(head);
  const auto tenant = api_keys_.FindTenant(head.headers);
  BodyPlan plan;
  if (!tenant && found.route == nullptr) {
    plan.refusal = UnknownPath(head);
  } else if (!tenant && (!found.route->needs_key || head.method == "OPTIONS")) {
    plan.max_bytes = kMaxUselessBytes;
  } else if (!tenant) {
    plan.refusal = WrongKey();
  } else if (head.method == "PUT" && head.path.starts_with(kAdapterPrefix)) {
    plan = PlanUpload(head, *tenant);
  }
  if (plan.refusal.has_value()) {
    options_.metrics->OnResponse(found.route != nullptr ? found.route->path : "other",
                                 plan.refusal->status);
  }
  return plan;
}

BodyPlan Gateway::PlanUpload(const HttpRequest& head, const std::string& tenant) {
  const auto boundary = FindMultipartBoundary(FindHeader(head.headers, "Content-Type"));
  if (boundary.ok() && !boundary->has_value()) return {};
  if (!boundary.ok()) return {.refusal = FromStatus(boundary.status())};
  if (auto error = CheckUpload(head, tenant)) return {.refusal = std::move(error)};
  auto slot = upload_slots_.Take(tenant);
  if (slot == nullptr) {
    return {.refusal = Overloaded("There are too many uploads at the moment.")};
  }
  return {.sink = std::make_shared<UploadSink>(
              UploadSink::Options{.boundary = **boundary,
                                  .max_bytes = options_.max_upload_bytes,
                                  .store = &remote_.loader->store(),
                                  .queue = &uploads_,
                                  .post = options_.post,
                                  .slot = std::move(slot)}),
          .max_bytes = static_cast<size_t>(options_.max_upload_bytes) + kMultipartBytes,
          .timeout = options_.upload_timeout};
}

std::optional<ApiError> Gateway::CheckUpload(const HttpRequest& head,
                                             const std::string& tenant) const {
  if (model_ == nullptr) return Overloaded("The model is still being loaded.");
  if (remote_.loader == nullptr || loader_ == nullptr || options_.is_in_cluster) {
    return ApiError{
        .status = 403,
        .message = options_.is_in_cluster
                       ? "Adapters cannot be uploaded to a cluster, whose runners get them from "
                         "where they lie: give a `source` that all of them reach."
                       : "Adapters cannot be uploaded here: the server was started without "
                         "--state-dir.",
        .param = "",
        .code = ""};
  }
  if (auto error = CheckName(AdapterName(head), ContextOf(tenant, *model_))) return error;
  return std::nullopt;
}

void Gateway::HandleUpload(ApiCall call) {
  // Given up, with its slot and what is left of its files, before the client has its answer.
  const auto held = std::make_shared<std::shared_ptr<BodySink>>(std::move(call.request.sink));
  BodyFunction put = [remote = remote_, held, name = AdapterName(call.request),
                      query = call.request.query](const std::string&,
                                                  const RequestContext& context) {
    const std::shared_ptr<BodySink> sink = std::exchange(*held, nullptr);
    auto& upload = static_cast<UploadSink&>(*sink);  // only PlanBody makes sinks
    return ToResponse(PutUpload(name, query, upload.Finish(), context, remote));
  };
  if (!ChangeAdapters(std::move(call), std::move(put))) (*held)->Abandon(std::move(*held));
}

void Gateway::HandlePutAdapter(ApiCall call) {
  if (call.request.sink != nullptr) return HandleUpload(std::move(call));
  // What is only to be verified is fetched first.
  BodyFunction put = [loader = loader_, remote = remote_, name = AdapterName(call.request),
                      query = call.request.query,
                      later = AnswerLater<PutAnswer>(options_.post, call.responder)](
                         const std::string& body, const RequestContext& context) {
    return ToResponse(PutAdapter(name, query, body, context, *loader, remote, later));
  };
  ChangeAdapters(std::move(call), std::move(put));
}

void Gateway::HandleDeleteAdapter(ApiCall call) {
  BodyFunction remove = [remote = remote_, name = AdapterName(call.request),
                         query = call.request.query](const std::string&,
                                                     const RequestContext& context) {
    return ToResponse(DeleteAdapter(name, query, context, remote));
  };
  ChangeAdapters(std::move(call), std::move(remove));
}

void Gateway::HandleLoadAdapter(ApiCall call) {
  // As in vLLM, the answer comes when the adapter is there.
  BodyFunction load = [loader = loader_, remote = remote_,
                       later = AnswerLater<std::string>(options_.post, call.responder)](
                          const std::string& body, const RequestContext& context) {
    return ToResponse(LoadAdapter(body, context, *loader, remote, later));
  };
  ChangeAdapters(std::move(call), std::move(load));
}

void Gateway::HandleUnloadAdapter(ApiCall call) {
  ChangeAdapters(std::move(call),
                 [remote = remote_](const std::string& body, const RequestContext& context) {
                   return ToResponse(UnloadAdapter(body, context, remote));
                 });
}

bool Gateway::ChangeAdapters(ApiCall call, BodyFunction function) {
  if (loader_ == nullptr) {
    call.Fail({.status = 403,
               .message = options_.is_in_cluster
                              ? "Adapters cannot be changed here: the gateway was started "
                                "without --etcd, or without --adapter-root and --state-dir."
                              : "Adapters cannot be changed here: the server was started "
                                "without --adapter-root and without --state-dir.",
               .param = "",
               .code = ""});
    return false;
  }
  BodyFunction change = [loads = loads_.get(), function = std::move(function)](
                            const std::string& body, const RequestContext& context) {
    // Loads end between two changes.
    std::unique_lock<std::mutex> lock;
    if (loads != nullptr) lock = std::unique_lock(loads->changes());
    return function(body, context);
  };
  return AnswerOn(adapter_changes_, std::make_shared<ApiCall>(std::move(call)), std::move(change),
                  /*may_open=*/true);
}

void Gateway::HandleKeptResponse(ApiCall call) {
  call.Fail(
      {.status = 404,
       .message = "There is no " + call.request.path +
                  " here: /v1/responses keeps no answers, and has only input_tokens beneath it.",
       .param = "",
       .code = ""});
}

void Gateway::AnswerWithModel(ApiCall call, ModelFunction function) {
  const auto shared = std::make_shared<const ApiCall>(std::move(call));
  const ErrorStyle style = shared->error_style();
  BodyFunction opened = [function, style](const std::string& body, const RequestContext& context) {
    return ToResponse(function(body, context), style);
  };
  BodyFunction answer = [this, shared, function, style, opened = std::move(opened)](
                            const std::string& body,
                            const RequestContext& context) -> std::optional<HttpResponse> {
    const auto result = function(body, context);
    if (result.ok() || !result.error().closed_adapter.has_value()) return ToResponse(result, style);
    options_.post([this, shared, opened, adapter = *result.error().closed_adapter] {
      AnswerOn(openings_, shared, opened, /*may_open=*/true, StrCat(adapter));
    });
    return std::nullopt;
  };
  AnswerOn(work_.ForBody(shared->request.body.size()), shared, std::move(answer));
}

RequestContext Gateway::ContextOf(std::string_view tenant, const ServedModel& model) const {
  return {.model = model,
          .limits = options_.limits,
          .tenant = tenant,
          .unix_seconds = options_.clock->UnixSeconds(),
          .loads = loads_.get()};
}

bool Gateway::AnswerOn(WorkQueue& queue, std::shared_ptr<const ApiCall> call, BodyFunction function,
                       bool may_open, WorkQueue::Lane lane) {
  auto work = [this, call, model = model_, function = std::move(function), may_open,
               draw = options_.random()] {
    RequestContext context = ContextOf(call->tenant, *model);
    context.draw = draw;
    context.may_open = may_open;
    auto response = AnswerSafely(function, *call, context);
    if (!response.has_value()) return;
    const auto answer = std::make_shared<HttpResponse>(*std::move(response));
    options_.post(
        [responder = call->responder, answer] { responder->Respond(std::move(*answer)); });
  };
  if (queue.TryPush(std::move(work), lane.value_or(call->tenant))) return true;
  call->Fail(QueueIsFull());
  return false;
}

}  // namespace aril::gateway
