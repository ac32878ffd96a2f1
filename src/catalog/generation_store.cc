#include "catalog/generation_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/check.h"
#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "spec/lora_config.h"
#include "tokenizer/tokenizer_folder.h"
#include "tokenizer/tokenizer_json.h"

namespace aril {

namespace fs = std::filesystem;

namespace {

constexpr const char* kConfigFile = "adapter_config.json";
constexpr int64_t kMaxConfigBytes = int64_t{4} << 20;
// By its configuration, if that can be read.
bool IsOfClassifier(const Folder& dir) {
  const auto text = ReadFile(dir, kConfigFile, kMaxConfigBytes);
  if (!text.ok()) return false;
  const auto config = Json::Parse(*text);
  return config.ok() && IsClassifier(*config);
}

// What an adapter is served from. The bounds of the small ones are those of who reads them.
constexpr AdapterFile kFiles[] = {
    {kConfigFile, true, kMaxConfigBytes},
    {"adapter_model.safetensors", true, int64_t{64} << 30},
    {"additional_chat_templates/tool_use.jinja", false, int64_t{1} << 20},
    {"chat_template.jinja", false, int64_t{1} << 20},
    {"chat_template.json", false, int64_t{1} << 20},
    {"config.json", false, int64_t{4} << 20, IsOfClassifier},
    {"tokenizer.json", false, int64_t{kMaxTokenizerFileBytes}, NeedsTokenizerJson},
    {"tokenizer_config.json", false, int64_t{16} << 20},
};

bool IsRead(const AdapterFile& kind, const Folder& dir) {
  return kind.is_read == nullptr || kind.is_read(dir);
}

constexpr std::string_view kIncomingPrefix = "incoming-";
constexpr size_t kDigestDigits = 64;

// Of what is the store's own: nothing that a client could mend, so that the log alone has the path.
Status StoreErrno(const std::string& path) {
  const std::string reason = std::generic_category().message(errno);
  const Status status = ErrnoStatus(path);
  LogError("the store of adapters: " + Message(status));
  const std::string what = "the adapter cannot be stored here: " + reason;
  return status.code() == StatusCode::kResourceExhausted ? ResourceExhausted(what)
                                                         : Unavailable(what);
}

FileDescriptor OpenFile(const std::string& path, int flags) {
  constexpr mode_t kMode = 0644;
  return FileDescriptor(open(path.c_str(), flags | O_CLOEXEC, kMode));
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return StoreErrno(path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

// `from` is the path of `in`, for errors.
Status CopyFile(const FileDescriptor& in, const std::string& from, const std::string& to,
                int64_t max_bytes) {
  struct stat info;
  if (fstat(in.get(), &info) != 0) return ErrnoStatus(from);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(from + ": not a regular file");
  const FileDescriptor out = OpenFile(to, O_WRONLY | O_CREAT | O_EXCL);
  if (!out.is_open()) return StoreErrno(to);
  std::string buffer(size_t{1} << 20, '\0');
  int64_t copied = 0;
  while (true) {
    const ssize_t n = read(in.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(from);
    if (n == 0) break;
    copied += n;
    if (copied > max_bytes) {
      return InvalidArgument(
          StrCat(from, ": larger than the ", max_bytes, " bytes allowed for this kind of file"));
    }
    RETURN_IF_ERROR(
        WriteAll(out.get(), std::string_view(buffer).substr(0, static_cast<size_t>(n)), to));
  }
  return fsync(out.get()) == 0 ? OkStatus() : StoreErrno(to);
}

StatusOr<std::vector<std::string>> NamesIn(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return Unavailable(dir + ": " + error.message());
  std::ranges::sort(names);
  return names;
}

Status RemoveFolder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? Unavailable(path + ": " + error.message()) : OkStatus();
}

}  // namespace

Status SyncFolder(const std::string& path) {
  const FileDescriptor folder = OpenFile(path, O_RDONLY | O_DIRECTORY);
  return folder.is_open() && fsync(folder.get()) == 0 ? OkStatus() : StoreErrno(path);
}

std::span<const AdapterFile> AdapterFiles() { return kFiles; }

std::vector<std::string> AdapterFileNames() {
  std::vector<std::string> names;
  for (const AdapterFile& kind : kFiles) names.emplace_back(kind.name);
  return names;
}

StatusOr<std::string> DigestOfAdapter(const Folder& dir) {
  std::string manifest;
  for (const AdapterFile& kind : kFiles) {
    if (!IsRead(kind, dir)) continue;
    const auto file = MapFile(dir, kind.name);
    if (!kind.required && file.status().code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(file.status());
    manifest += StrCat(kind.name, " ", Sha256(file->bytes()), "\n");
    if (!file->is_intact()) {
      return InvalidArgument(dir.PathOf(kind.name) + ": the file has been truncated");
    }
  }
  return Sha256(manifest);
}

bool IsDigest(const std::string& text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

GenerationStore::Incoming::~Incoming() {
  // What cannot be removed now is when the store is opened again.
  if (!dir_.empty()) RemoveFolder(dir_).IgnoreError();
}

StatusOr<GenerationStore> GenerationStore::Open(std::string dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return InvalidArgument(dir + ": " + error.message());
  RETURN_IF_ERROR(SyncFolder(fs::path(dir).parent_path()));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(dir));
  for (const std::string& name : names) {
    if (name.starts_with(kIncomingPrefix)) RETURN_IF_ERROR(RemoveFolder(dir + "/" + name));
  }
  return GenerationStore(std::move(dir));
}

StatusOr<GenerationStore::Incoming> GenerationStore::Begin() const {
  std::string name = StrCat(dir_, "/", kIncomingPrefix, "XXXXXX");
  if (mkdtemp(name.data()) == nullptr) return StoreErrno(dir_);
  return Incoming(std::move(name));
}

Status GenerationStore::Seal(Incoming* incoming) {
  for (const AdapterFile& kind : kFiles) {
    const fs::path path = fs::path(incoming->dir()) / kind.name;
    if (!FileExists(path)) {
      if (!kind.required) continue;
      return NotFound(StrCat("there is no ", kind.name, ", which an adapter must have"));
    }
    if (!IsRead(kind, incoming->dir())) {
      if (unlink(path.c_str()) != 0) return StoreErrno(path);
      continue;
    }
    const FileDescriptor file = OpenFile(path, O_RDONLY);
    if (!file.is_open() || fsync(file.get()) != 0) return StoreErrno(path);
    RETURN_IF_ERROR(SyncFolder(path.parent_path()));
  }
  RETURN_IF_ERROR(SyncFolder(incoming->dir()));
  ASSIGN_OR_RETURN(incoming->digest_, DigestOfAdapter(incoming->dir()));
  return OkStatus();
}

StatusOr<GenerationStore::Incoming> GenerationStore::Copy(const Folder& source) const {
  ASSIGN_OR_RETURN(Incoming incoming, Begin());
  // What is read depends on what the copy has of others.
  for (const bool always : {true, false}) {
    for (const AdapterFile& kind : kFiles) {
      const bool is_always_read = kind.is_read == nullptr;
      if (is_always_read != always || !IsRead(kind, incoming.dir())) continue;
      const auto from = source.Open(kind.name);
      if (!kind.required && from.status().code() == StatusCode::kNotFound) continue;
      RETURN_IF_ERROR(from.status());
      const fs::path to = fs::path(incoming.dir()) / kind.name;
      if (to.parent_path() != incoming.dir() && mkdir(to.parent_path().c_str(), 0755) != 0) {
        return StoreErrno(to.parent_path());
      }
      RETURN_IF_ERROR(CopyFile(*from, source.PathOf(kind.name), to, kind.max_bytes));
    }
  }
  RETURN_IF_ERROR(Seal(&incoming));
  return incoming;
}

Status GenerationStore::Keep(Incoming incoming) const {
  const std::string to = DirOf(incoming.digest());
  if (rename(incoming.dir().c_str(), to.c_str()) != 0) {
    return errno == ENOTEMPTY || errno == EEXIST ? OkStatus() : StoreErrno(to);
  }
  incoming.dir_ = to;  // to be removed, unless its name is on disk
  RETURN_IF_ERROR(SyncFolder(dir_));
  incoming.dir_.clear();
  return OkStatus();
}

bool GenerationStore::Has(const std::string& digest) const {
  return IsDigest(digest) && FileExists(DirOf(digest));
}

StatusOr<std::vector<std::string>> GenerationStore::List() const {
  ASSIGN_OR_RETURN(std::vector<std::string> names, NamesIn(dir_));
  std::erase_if(names, [](const std::string& name) { return !IsDigest(name); });
  return names;
}

Status GenerationStore::Remove(const std::string& digest) const {
  CHECK(IsDigest(digest));
  // Renamed first: a folder that has the name is always complete.
  const std::string doomed = StrCat(dir_, "/", kIncomingPrefix, digest);
  if (rename(DirOf(digest).c_str(), doomed.c_str()) != 0) {
    return errno == ENOENT ? OkStatus() : Unavailable(Message(ErrnoStatus(doomed)));
  }
  return RemoveFolder(doomed);
}

}  // namespace aril
