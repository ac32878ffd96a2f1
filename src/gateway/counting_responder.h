// Counts the answers that go out.

#ifndef ARIL_GATEWAY_COUNTING_RESPONDER_H_
#define ARIL_GATEWAY_COUNTING_RESPONDER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/http_message.h"
#include "gateway/metrics.h"

namespace aril::gateway {

// By route and status; everything else is the inner responder's.
class CountingResponder final : public HttpResponder {
 public:
  CountingResponder(std::shared_ptr<HttpResponder> inner, Metrics& metrics, std::string_view route)
      : inner_(std::move(inner)), metrics_(metrics), route_(route) {}

  void Respond(HttpResponse response) override {
    metrics_.OnResponse(route_, response.status);
    inner_->Respond(std::move(response));
  }
  void StartStream(HttpResponse head, std::string heartbeat) override {
    metrics_.OnResponse(route_, head.status);
    inner_->StartStream(std::move(head), std::move(heartbeat));
  }
  void Write(std::string_view bytes) override { inner_->Write(bytes); }
  void Finish() override { inner_->Finish(); }
  void OnDisconnect(std::function<void()> callback) override {
    inner_->OnDisconnect(std::move(callback));
  }

 private:
  const std::shared_ptr<HttpResponder> inner_;
  Metrics& metrics_;
  const std::string_view route_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_COUNTING_RESPONDER_H_
