#include "gateway/test_support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace aril::gateway {

std::vector<int32_t> ByteTokenizer::Encode(std::string_view text,
                                           const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  if (options.add_special_tokens) ids.push_back(kBosToken);
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string ByteTokenizer::TokenBytes(int32_t id, bool, bool skip_special_tokens) const {
  if (id == kBosToken) return skip_special_tokens ? "" : "<s>";
  if (id == kEosToken) return skip_special_tokens ? "" : "</s>";
  return id >= 0 && id < kBosToken ? std::string(1, static_cast<char>(id)) : "";
}

std::vector<int32_t> SpecialTokenizer::Encode(std::string_view text,
                                              const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    const auto special = std::ranges::find_if(
        special_, [&](const std::string& token) { return text.starts_with(token); });
    if (options.parse_special_tokens && special != special_.end()) {
      ids.push_back(256 + static_cast<int32_t>(special - special_.begin()));
      text.remove_prefix(special->size());
    } else {
      ids.push_back(static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
    }
  }
  return ids;
}

std::string SpecialTokenizer::TokenBytes(int32_t id, bool, bool skip_special_tokens) const {
  if (id < 256) return std::string(1, static_cast<char>(id));
  return skip_special_tokens ? "" : special_[static_cast<size_t>(id - 256)];
}

ModelTextPtr TextOfBytes(ChatDialectOr chat_dialect) {
  return std::make_shared<const ModelText>(ModelText{.tokenizer = std::make_shared<ByteTokenizer>(),
                                                     .vocab_size = 258,
                                                     .chat_dialect = std::move(chat_dialect)});
}

std::shared_ptr<const ServedModel> MakeServedModel(const Catalog::Options& catalog_options) {
  const auto adapter = [](const std::string& name, const std::string& root, int32_t id) {
    return CatalogEntry{.name = name,
                        .parent = "base",
                        .root = root,
                        .generation = std::make_shared<const Generation>(
                            Generation::Description{.adapter = AdapterId(id)})};
  };
  auto catalog = Catalog::Create({{.name = "base", .parent = "", .root = "/models/base"},
                                  adapter("poet", "/adapters/poet", 0),
                                  adapter("org/pirate", "/adapters/pirate", 1)},
                                 catalog_options);
  CHECK(catalog.ok());
  ModelSpec spec;
  spec.vocab_size = 258;
  spec.hidden_size = 8;
  const auto parse = [](const char* source) -> ChatDialectOr {
    auto parsed = ChatTemplate::Parse(source, {{"bos_token", "<s>"}});
    CHECK(parsed.ok());
    return std::make_shared<const ChatDialect>(*std::move(parsed));
  };
  spec.eos_token_ids = {kEosToken};
  auto texts = std::make_shared<AdapterTexts>();
  texts->Set(AdapterId(0), TextOfBytes(parse("poem:")));
  return std::make_shared<const ServedModel>(ServedModel{.spec = spec,
                                                         .text = TextOfBytes(parse(kChatTemplate)),
                                                         .adapter_texts = std::move(texts),
                                                         .catalog = *std::move(catalog),
                                                         .max_model_len = 64,
                                                         .created = 1700000000});
}

Status FakePort::Submit(wire::SequenceRequest request) {
  const SequenceId sequence = request.sequence;
  std::vector<wire::TokenEvent> events;
  {
    const std::lock_guard lock(mutex_);
    if (num_accepted_-- <= 0) return refusal_;
    // Others before it may have been refused.
    CHECK_GE(sequence.value(), std::ssize(num_emitted_));
    num_emitted_.resize(static_cast<size_t>(sequence.value()) + 1);
    requests_.push_back(std::move(request));
    if (answer_) events = MakeEvents(sequence, *answer_, wire::FinishReason::kLength);
  }
  changed_.notify_all();
  if (!events.empty()) sink_->OnStep({}, std::move(events));
  return OkStatus();
}

void FakePort::Cancel(SequenceId sequence) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(sequence);
  }
  changed_.notify_all();
}

void FakePort::AnswerWith(std::string text) {
  const std::lock_guard lock(mutex_);
  answer_ = std::move(text);
}

void FakePort::RefuseAfter(int num_accepted, Status status) {
  const std::lock_guard lock(mutex_);
  num_accepted_ = num_accepted;
  refusal_ = std::move(status);
}

std::vector<wire::SequenceRequest> FakePort::WaitForRequests(size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return requests_.size() >= count; });
  return requests_;
}

std::vector<SequenceId> FakePort::WaitForCancels(size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return cancelled_.size() >= count; });
  return cancelled_;
}

void FakePort::Emit(SequenceId sequence, std::string_view bytes,
                    std::optional<wire::FinishReason> finish) {
  std::vector<wire::TokenEvent> events;
  {
    const std::lock_guard lock(mutex_);
    events = MakeEvents(sequence, bytes, finish);
  }
  EmitEvents(std::move(events));
}

void FakePort::EmitEvents(std::vector<wire::TokenEvent> events) {
  sink_->OnStep({.step = 1, .num_rows = 1}, std::move(events));
}

void FakePort::EmitStopToken(SequenceId sequence, int32_t token) {
  wire::TokenEvent event = {.sequence = sequence, .token = token, .stop_token = token};
  event.finish = wire::FinishReason::kStop;
  {
    const std::lock_guard lock(mutex_);
    event.index = NextIndex(sequence);
  }
  EmitEvents({event});
}

void FakePort::EmitError(SequenceId sequence, Status error) {
  wire::TokenEvent event = {.sequence = sequence, .error = std::move(error)};
  event.finish = wire::FinishReason::kError;
  EmitEvents({event});
}

std::vector<wire::TokenEvent> FakePort::MakeEvents(SequenceId sequence, std::string_view bytes,
                                                   std::optional<wire::FinishReason> finish) {
  std::vector<wire::TokenEvent> events;
  for (const char byte : bytes) {
    wire::TokenEvent event = {.sequence = sequence, .index = NextIndex(sequence)};
    event.token = static_cast<unsigned char>(byte);
    events.push_back(std::move(event));
  }
  if (finish && events.empty()) events.push_back({.sequence = sequence});
  if (finish) events.back().finish = finish;
  return events;
}

int32_t FakePort::NextIndex(SequenceId sequence) {
  return num_emitted_[static_cast<size_t>(sequence.value())]++;
}

RawClient::RawClient(uint16_t port, int receive_buffer_bytes)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  CHECK_GE(fd_, 0);
  if (receive_buffer_bytes > 0) {
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Else each small piece waits for the acknowledgement of the one before.
  const int yes = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  CHECK_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
}

std::string TakeUntil(std::string_view end, std::string* pending,
                      const std::function<int(std::span<char>)>& receive) {
  while (true) {
    const size_t found = end.empty() ? std::string::npos : pending->find(end);
    if (found != std::string::npos) {
      std::string result = pending->substr(0, found + end.size());
      pending->erase(0, result.size());
      return result;
    }
    char piece[4096];
    const int received = receive(piece);
    if (received <= 0) return std::exchange(*pending, {});
    pending->append(piece, static_cast<size_t>(received));
  }
}

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::string RawClient::ReadUntil(std::string_view end) {
  return TakeUntil(end, &pending_, [this](std::span<char> piece) {
    return static_cast<int>(recv(fd_, piece.data(), piece.size(), 0));
  });
}

void RawClient::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

std::string PostText(const std::string& path, const std::string& body, const std::string& headers) {
  return StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\n", headers, "Content-Length: ", body.size(),
                "\r\n\r\n", body);
}

}  // namespace aril::gateway
