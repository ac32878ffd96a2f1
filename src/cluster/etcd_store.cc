#include "cluster/etcd_store.h"

#include <grpcpp/grpcpp.h>

#include <functional>
#include <utility>

#include "base/strings.h"
#include "cluster/credentials.h"
#include "cluster/etcd.grpc.pb.h"

namespace aril::cluster {

namespace pb = etcdserverpb;

namespace {

// Of a listing, so that an answer is not too large whatever the values are.
constexpr int64_t kPageKeys = 256;
constexpr int kMaxAnswerBytes = 128 << 20;

// The first key behind all that begin with it; prefixes of ours end in a slash.
std::string EndOfPrefix(std::string prefix) {
  ++prefix.back();
  return prefix;
}

}  // namespace

class EtcdStore::Impl {
 public:
  Impl(const Options& options, const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : timeout_(options.timeout) {
    for (const std::string& endpoint : options.endpoints) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
      arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
      // A member that has come back is found within a second.
      arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
      arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
      arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
      const auto channel = grpc::CreateCustomChannel(endpoint, credentials, arguments);
      members_.push_back({endpoint, pb::KV::NewStub(channel), pb::Lease::NewStub(channel)});
    }
  }

  struct Member {
    std::string endpoint;
    std::unique_ptr<pb::KV::Stub> kv;
    std::unique_ptr<pb::Lease::Stub> lease;
  };

  // At the member that answered last, then at the others.
  Status Call(const std::string& what,
              const std::function<grpc::Status(Member&, grpc::ClientContext*)>& call) {
    Status failed;
    for (size_t tries = 0; tries < members_.size(); ++tries) {
      Member& member = members_[current_];
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::milliseconds>(timeout_));
      const grpc::Status status = call(member, &context);
      if (status.ok()) return OkStatus();
      failed =
          MakeStatus(status.error_code() == grpc::StatusCode::NOT_FOUND ? StatusCode::kNotFound
                                                                        : StatusCode::kUnavailable,
                     StrCat("etcd at ", member.endpoint, ": ", what, ": ", status.error_message()));
      if (failed.code() == StatusCode::kNotFound) return failed;
      current_ = (current_ + 1) % members_.size();
    }
    return failed;
  }

 private:
  const Duration timeout_;
  std::vector<Member> members_;
  size_t current_ = 0;
};

EtcdStore::EtcdStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EtcdStore::~EtcdStore() = default;

StatusOr<std::unique_ptr<EtcdStore>> EtcdStore::Create(const Options& options) {
  if (options.endpoints.empty()) return InvalidArgument("--etcd names no member");
  for (const std::string& endpoint : options.endpoints) {
    ASSIGN_OR_RETURN(const HostPort address, ParseHostPort("--etcd", endpoint));
    if (options.allows_insecure) continue;
    RETURN_IF_ERROR(CheckPlaintext("connecting to etcd at", address, "--etcd", options.tls));
  }
  ASSIGN_OR_RETURN(const Credentials credentials, MakeCredentials("--etcd", options.tls));
  return std::unique_ptr<EtcdStore>(
      new EtcdStore(std::make_unique<Impl>(options, credentials.client)));
}

StatusOr<int64_t> EtcdStore::Grant(int64_t ttl_seconds) {
  pb::LeaseGrantRequest request;
  request.set_ttl(ttl_seconds);
  pb::LeaseGrantResponse response;
  RETURN_IF_ERROR(impl_->Call("granting a lease", [&](auto& member, auto* context) {
    return member.lease->LeaseGrant(context, request, &response);
  }));
  if (!response.error().empty()) return Unavailable("etcd: " + response.error());
  return response.id();
}

StatusOr<bool> EtcdStore::KeepAlive(int64_t lease) {
  pb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  pb::LeaseKeepAliveResponse response;
  RETURN_IF_ERROR(impl_->Call("renewing a lease", [&](auto& member, auto* context) {
    const auto stream = member.lease->LeaseKeepAlive(context);
    const bool is_sent = stream->Write(request);
    stream->WritesDone();
    const bool is_answered = is_sent && stream->Read(&response);
    const grpc::Status status = stream->Finish();
    if (is_answered) return grpc::Status::OK;
    return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer came") : status;
  }));
  return response.ttl() > 0;
}

Status EtcdStore::Revoke(int64_t lease) {
  pb::LeaseRevokeRequest request;
  request.set_id(lease);
  pb::LeaseRevokeResponse response;
  return impl_->Call("revoking a lease", [&](auto& member, auto* context) {
    return member.lease->LeaseRevoke(context, request, &response);
  });
}

// If the lease has ended meanwhile, etcd refuses the whole transaction.
StatusOr<LeaseStore::Key> EtcdStore::CreateOrGet(const std::string& key, const std::string& value,
                                                 int64_t lease) {
  pb::TxnRequest request;
  pb::Compare& is_absent = *request.add_compare();
  is_absent.set_result(pb::Compare::EQUAL);
  is_absent.set_target(pb::Compare::CREATE);
  is_absent.set_key(key);
  is_absent.set_create_revision(0);
  pb::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(value);
  put.set_lease(lease);
  request.add_success()->mutable_request_range()->set_key(key);
  request.add_failure()->mutable_request_range()->set_key(key);
  pb::TxnResponse response;
  RETURN_IF_ERROR(impl_->Call("electing", [&](auto& member, auto* context) {
    return member.kv->Txn(context, request, &response);
  }));
  const int last = response.responses_size() - 1;
  if (last < 0 || response.responses(last).response_range().kvs_size() != 1) {
    return Unavailable("etcd has given an answer without the leader's key");
  }
  const pb::KeyValue& found = response.responses(last).response_range().kvs(0);
  return Key{.create_revision = found.create_revision(), .lease = found.lease()};
}

// In pages, all of the revision that the first one was of.
StatusOr<KeyValueStore::Listing> EtcdStore::List(const std::string& prefix, int64_t after) {
  pb::RangeRequest request;
  request.set_key(prefix);
  request.set_range_end(EndOfPrefix(prefix));
  request.set_limit(kPageKeys);
  if (after > 0) request.set_min_mod_revision(after + 1);
  Listing listing;
  while (true) {
    pb::RangeResponse response;
    RETURN_IF_ERROR(impl_->Call("listing keys", [&](auto& member, auto* context) {
      return member.kv->Range(context, request, &response);
    }));
    if (listing.revision == 0) listing.revision = response.header().revision();
    for (pb::KeyValue& found : *response.mutable_kvs()) {
      listing.items.push_back({.key = std::move(*found.mutable_key()),
                               .value = std::move(*found.mutable_value()),
                               .create_revision = found.create_revision(),
                               .mod_revision = found.mod_revision()});
    }
    if (!response.more() || response.kvs().empty()) return listing;
    request.set_key(listing.items.back().key + std::string(1, '\0'));
    request.set_revision(listing.revision);
  }
}

StatusOr<std::optional<int64_t>> EtcdStore::Commit(const std::vector<Condition>& conditions,
                                                   const std::vector<Write>& writes) {
  pb::TxnRequest request;
  for (const Condition& condition : conditions) {
    pb::Compare& compare = *request.add_compare();
    compare.set_result(pb::Compare::EQUAL);
    compare.set_target(pb::Compare::MOD);
    compare.set_key(condition.key);
    compare.set_mod_revision(condition.mod_revision);
  }
  for (const Write& write : writes) {
    pb::RequestOp& op = *request.add_success();
    if (write.value) {
      op.mutable_request_put()->set_key(write.key);
      op.mutable_request_put()->set_value(*write.value);
    } else {
      op.mutable_request_delete_range()->set_key(write.key);
    }
  }
  pb::TxnResponse response;
  RETURN_IF_ERROR(impl_->Call("writing keys", [&](auto& member, auto* context) {
    return member.kv->Txn(context, request, &response);
  }));
  if (!response.succeeded()) return std::optional<int64_t>();
  return std::optional(response.header().revision());
}

}  // namespace aril::cluster
