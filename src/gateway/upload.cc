#include "gateway/upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/strings.h"

namespace aril::gateway {
namespace {

constexpr size_t kShownBytes = 100;  // of a client's text

std::string Shown(const std::string& text) { return JsonQuote(text.substr(0, kShownBytes)); }

// Clients send the name that the file has with them; some send their path.
bool IsPlainFilename(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\:") == std::string::npos &&
         std::ranges::none_of(name, [](unsigned char c) { return c < ' ' || c == 0x7F; });
}

}  // namespace

UploadFiles::~UploadFiles() {
  if (fd_ >= 0) close(fd_);
}

// Our own paths are no business of clients.
Status UploadFiles::DiskError() const {
  return ResourceExhausted(StrCat("the upload cannot be written here: ", std::strerror(errno)));
}

Status UploadFiles::OnPart(const std::string& name, const std::optional<std::string>& filename) {
  const auto files = AdapterFiles();
  const auto file = std::ranges::find(files, name, &AdapterFile::name);
  if (file == files.end()) {
    return InvalidArgument(StrCat("the part ", Shown(name), " is no file of an adapter: those are ",
                                  Join(AdapterFileNames(), ", ")));
  }
  if (filename.has_value() && !IsPlainFilename(*filename)) {
    return InvalidArgument(StrCat("the part ", name, " has the file name ", Shown(*filename),
                                  ", which must be plain, without a path"));
  }
  if (!names_.insert(name).second)
    return InvalidArgument(StrCat("the part ", name, " comes twice"));
  if (!incoming_.has_value()) {
    ASSIGN_OR_RETURN(GenerationStore::Incoming begun, store_.Begin());
    incoming_.emplace(std::move(begun));
  }
  // `name` is one of ours.
  const std::filesystem::path path = std::filesystem::path(incoming_->dir()) / file->name;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  left_of_file_ = file->max_bytes;
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  return fd_ >= 0 ? OkStatus() : DiskError();
}

Status UploadFiles::OnData(std::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  left_of_file_ -= size;
  left_bytes_ -= size;
  if (left_of_file_ < 0 || left_bytes_ < 0) {
    return InvalidArgument(
        "the upload is larger than what is allowed for such a file or, with --source-max-bytes, "
        "for an adapter");
  }
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return DiskError();
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

Status UploadFiles::OnPartEnd() {
  return close(std::exchange(fd_, -1)) == 0 ? OkStatus() : DiskError();
}

StatusOr<GenerationStore::Incoming> UploadFiles::Finish() {
  if (!incoming_.has_value()) return InvalidArgument("the upload has no parts");
  GenerationStore::Incoming incoming = *std::move(incoming_);
  incoming_.reset();
  RETURN_IF_ERROR(GenerationStore::Seal(&incoming));
  return incoming;
}

Status UploadSink::TryAppend(std::string_view bytes) {
  try {
    return parser_.Append(bytes);
  } catch (const std::exception& exception) {
    LogError(StrCat("an upload could not be taken: ", exception.what()));
    return Internal("the upload could not be taken");
  }
}

void UploadSink::Append(std::string bytes, std::function<void()> done) {
  auto work = [self = shared_from_this(), bytes = std::move(bytes), done] {
    self->status_ = self->TryAppend(bytes);
    self->has_failed_ = !self->status_.ok();
    self->options_.post(done);
  };
  if (options_.queue->TryPush(std::move(work))) return;
  // Nothing is under way, so nobody else looks at these.
  status_ = ResourceExhausted("there are too many uploads; please try again");
  has_failed_ = true;
  options_.post(std::move(done));
}

void UploadSink::Abandon(std::shared_ptr<BodySink> self) {
  // If the queue is full, here: a slow disk is then what everybody waits for, anyway.
  (void)options_.queue->TryPush([self = std::move(self)]() mutable { self = nullptr; });
}

StatusOr<GenerationStore::Incoming> UploadSink::Finish() {
  RETURN_IF_ERROR(status_);
  RETURN_IF_ERROR(parser_.Finish());
  return files_.Finish();
}

}  // namespace aril::gateway
