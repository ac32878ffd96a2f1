// An adapter that a client sends: the parts of a multipart body become files of the store while
// they arrive.

#ifndef ARIL_GATEWAY_UPLOAD_H_
#define ARIL_GATEWAY_UPLOAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/work_queue.h"
#include "catalog/generation_store.h"
#include "gateway/body_sink.h"
#include "gateway/event_inbox.h"
#include "gateway/multipart_parser.h"

namespace aril::gateway {

// Writes what AdapterFiles lists, each once; refuses everything else. Not thread-safe.
class UploadFiles final : public MultipartSink {
 public:
  UploadFiles(const GenerationStore& store, int64_t max_bytes)
      : store_(store), left_bytes_(max_bytes) {}
  UploadFiles(const UploadFiles&) = delete;
  UploadFiles& operator=(const UploadFiles&) = delete;
  ~UploadFiles() override;

  // InvalidArgument for a part that is no file of an adapter's, comes twice, is too large, or whose
  // file name is a path; ResourceExhausted if the disk is full.
  Status OnPart(const std::string& name, const std::optional<std::string>& filename) override;
  Status OnData(std::string_view bytes) override;
  Status OnPartEnd() override;

  // What has arrived, sealed. NotFound if a file is missing that an adapter must have.
  StatusOr<GenerationStore::Incoming> Finish();

 private:
  Status DiskError() const;

  const GenerationStore& store_;
  int64_t left_bytes_;  // of the adapter
  int64_t left_of_file_ = 0;
  std::optional<GenerationStore::Incoming> incoming_;
  std::set<std::string> names_;  // of the parts so far
  int fd_ = -1;
};

// The body of an upload. Parsed and written on the queue's thread, so that no disk holds up the
// server's.
class UploadSink final : public BodySink, public std::enable_shared_from_this<UploadSink> {
 public:
  struct Options {
    std::string boundary;
    int64_t max_bytes = 0;
    const GenerationStore* store = nullptr;  // outlives it
    WorkQueue* queue = nullptr;              // as long as the server's thread runs
    PostFunction post;
    std::shared_ptr<const void> slot;  // held until it is destroyed, on whatever thread
  };
  explicit UploadSink(Options options)
      : options_(std::move(options)),
        files_(*options_.store, options_.max_bytes),
        parser_(options_.boundary, files_) {}

  void Append(std::string bytes, std::function<void()> done) override;
  bool has_failed() const override { return has_failed_; }
  void Abandon(std::shared_ptr<BodySink> self) override;

  // What has arrived; on any thread, once the body is over.
  StatusOr<GenerationStore::Incoming> Finish();

 private:
  // What a library throws harms this upload alone.
  Status TryAppend(std::string_view bytes);

  const Options options_;
  UploadFiles files_;
  MultipartParser parser_;
  Status status_;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_UPLOAD_H_
