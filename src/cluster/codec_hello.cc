#include "cluster/codec_bodies.h"

#include <string>

#include "base/strings.h"
#include "cluster/aril.pb.h"
#include "cluster/field_reader.h"
#include "cluster/field_writer.h"

namespace aril::cluster {

void Write(const Hello& hello, TimePoint, v1::Frame* frame) {
  v1::Hello& out = *frame->mutable_hello();
  out.set_protocol(hello.protocol);
  out.set_version(WireText(hello.version));
  for (const std::string& feature : hello.features) out.add_features(WireText(feature));
  out.set_role(hello.role == Role::kGateway  ? v1::ROLE_GATEWAY
               : hello.role == Role::kRunner ? v1::ROLE_RUNNER
                                             : v1::ROLE_SCHEDULER);
  out.set_id(hello.id);
  out.set_instance(WireText(hello.instance));
  out.set_epoch(hello.epoch.value());
  out.set_address(WireText(hello.address));
  out.set_takes_hints(hello.takes_hints);
  out.set_keeps_formats(hello.keeps_formats);
  out.set_keeps_tool_calls(hello.keeps_tool_calls);
  out.set_keeps_reasoning(hello.keeps_reasoning);
  out.set_makes_embeddings(hello.makes_embeddings);
  out.set_classifies(hello.classifies);
  out.set_bounds_reasoning(hello.bounds_reasoning);
  out.set_masks_tokens(hello.masks_tokens);
  if (hello.role != Role::kScheduler) {
    out.mutable_deployment()->set_base_digest(WireText(hello.deployment.base_digest));
    for (const Deployment::Adapter& adapter : hello.deployment.adapters) {
      auto& entry = *out.mutable_deployment()->add_adapters();
      entry.set_name(WireText(adapter.name));
      entry.set_digest(WireText(adapter.digest));
    }
  }
  if (hello.role != Role::kRunner) return;
  v1::RunnerInfo& runner = *out.mutable_runner();
  runner.set_numeric_class(WireText(hello.runner.numeric_class));
  runner.set_max_running(hello.runner.max_running);
  runner.set_pages_total(hello.runner.pages_total);
  runner.set_page_tokens(hello.runner.pages.page_tokens);
  runner.set_state_pages(hello.runner.pages.state_pages);
  runner.set_page_bytes(hello.runner.page_bytes);
  runner.set_max_model_len(hello.runner.max_model_len);
  for (const int64_t pages : hello.runner.adapter_pages) runner.add_adapter_pages(pages);
  runner.set_no_prefix_cache(!hello.runner.caches_prefixes);
}

namespace {

Role RoleOf(v1::Role role, FieldReader& reader) {
  switch (role) {
    case v1::ROLE_GATEWAY:
      return Role::kGateway;
    case v1::ROLE_RUNNER:
      return Role::kRunner;
    case v1::ROLE_SCHEDULER:
      return Role::kScheduler;
    default:
      reader.Fail(StrCat("role is ", static_cast<int>(role), ", which this release does not know"));
      return Role::kGateway;
  }
}

Deployment Read(const v1::Deployment& in, FieldReader& reader) {
  Deployment out;
  out.base_digest = reader.Text("base_digest", in.base_digest(), kMaxName);
  if (!reader.Count("adapters", in.adapters_size(), kMaxAdapters)) return out;
  for (const auto& adapter : in.adapters()) {
    out.adapters.push_back({reader.Text("adapter name", adapter.name(), kMaxName),
                            reader.Text("adapter digest", adapter.digest(), kMaxName)});
  }
  return out;
}

RunnerCapacity Read(const v1::RunnerInfo& in, FieldReader& reader) {
  RunnerCapacity out;
  out.numeric_class = reader.Text("numeric_class", in.numeric_class(), kMaxName);
  out.max_running = reader.Int("max_running", in.max_running(), 1, kMaxSequences);
  out.pages_total = reader.Int("pages_total", in.pages_total(), 1, kMaxPages);
  out.pages.page_tokens = reader.Int("page_tokens", in.page_tokens(), 1, kMaxTokens);
  out.pages.state_pages = reader.Pages("state_pages", in.state_pages());
  out.page_bytes = reader.Int("page_bytes", in.page_bytes(), 1, kMaxBytes);
  out.max_model_len = reader.Int("max_model_len", in.max_model_len(), 1, kMaxTokens);
  out.caches_prefixes = !in.no_prefix_cache();
  if (!reader.Count("adapter_pages", in.adapter_pages_size(), kMaxAdapters)) return out;
  for (const int64_t pages : in.adapter_pages()) {
    out.adapter_pages.push_back(reader.Pages("adapter_pages", pages));
  }
  return out;
}

}  // namespace

Frame Read(const v1::Hello& in, FieldReader& reader) {
  Hello out;
  out.protocol = in.protocol();
  out.version = reader.Text("version", in.version(), kMaxName);
  if (reader.Count("features", in.features_size(), kMaxFeatures)) {
    for (const std::string& feature : in.features()) {
      out.features.push_back(reader.Text("feature", feature, kMaxName));
    }
  }
  // What comes of another protocol has fields that nobody here knows: it is refused whole.
  if (out.protocol != kProtocol) return out;
  out.role = RoleOf(in.role(), reader);
  out.id = reader.Int32("id", in.id(), out.role == Role::kScheduler ? -1 : 0, kInt32Max);
  out.instance = reader.Text("instance", in.instance(), kMaxName);
  out.epoch = reader.EpochOf(in.epoch());
  out.address = reader.Text("address", in.address(), kMaxName);
  out.takes_hints = in.takes_hints();
  out.keeps_formats = in.keeps_formats();
  out.keeps_tool_calls = in.keeps_tool_calls();
  out.keeps_reasoning = in.keeps_reasoning();
  out.makes_embeddings = in.makes_embeddings();
  out.classifies = in.classifies();
  out.bounds_reasoning = in.bounds_reasoning();
  out.masks_tokens = in.masks_tokens();
  if (out.role != Role::kScheduler) out.deployment = Read(in.deployment(), reader);
  if (out.role != Role::kRunner) return out;
  out.runner = Read(in.runner(), reader);
  if (out.runner.adapter_pages.size() != out.deployment.adapters.size()) {
    reader.Fail(StrCat("adapter_pages has ", out.runner.adapter_pages.size(), " entries for ",
                       out.deployment.adapters.size(), " adapters"));
  }
  return out;
}

}  // namespace aril::cluster
