// Writing safetensors: the header first, then the data as it comes. The file appears under its name
// only when it is complete, so that a reader never sees half of one.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/json.h"
#include "base/strings.h"
#include "tensor/safetensors.h"

namespace aril {
namespace {

Status WriteError(const std::string& path) {
  return Unavailable(StrCat(path, ": cannot write: ", std::strerror(errno)));
}

std::string PartialPath(const std::string& path) { return path + ".partial"; }

Status WriteAll(int fd, const char* data, size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t written = write(fd, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteError(path);
    data += written;
    size -= static_cast<size_t>(written);
  }
  return OkStatus();
}

Json MetadataJson(const std::map<std::string, std::string>& metadata) {
  Json::Object object;
  for (const auto& [key, value] : metadata) object.emplace_back(key, Json(value));
  return object;
}

// The tensor's header entry; moves `*offset` behind its data.
StatusOr<Json> EntryJson(const SafetensorsWriter::Declaration& tensor, int64_t* offset) {
  std::optional<int64_t> size = static_cast<int64_t>(SizeOf(tensor.dtype));
  Json::Array dims;
  for (const int64_t dim : tensor.shape) {
    if (dim < 0) return InvalidArgument("negative shape " + ToString(tensor.shape));
    dims.emplace_back(dim);
    size = CheckedMul(*size, dim);
    if (!size) return InvalidArgument("shape " + ToString(tensor.shape) + " overflows");
  }
  const std::optional<int64_t> end = CheckedAdd(*offset, *size);
  if (!end) return InvalidArgument("the tensors' total size overflows");
  const Json::Array offsets = {Json(*offset), Json(*end)};
  *offset = *end;
  return Json(Json::Object{{"dtype", std::string(Name(tensor.dtype))},
                           {"shape", std::move(dims)},
                           {"data_offsets", offsets}});
}

// Length, JSON and padding to a multiple of 8, so that the data is aligned in the file.
std::string HeaderBytes(const Json& header) {
  std::string text = header.Dump();
  text.resize(RoundUp<size_t>(text.size(), 8), ' ');
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(uint64_t{text.size()} >> (8 * i)));
  return bytes + text;
}

}  // namespace

StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path, const std::vector<Declaration>& tensors,
    const std::map<std::string, std::string>& metadata) {
  Json::Object header;
  std::map<std::string, bool> names;
  if (!metadata.empty()) header.emplace_back("__metadata__", MetadataJson(metadata));
  int64_t data_bytes = 0;
  for (const Declaration& tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.emplace(tensor.name, true).second) {
      return InvalidArgument(
          StrCat(path, ": tensor name ", JsonQuote(tensor.name), " is reserved or declared twice"));
    }
    StatusOr<Json> entry = EntryJson(tensor, &data_bytes);
    if (!entry.ok()) return Annotate(entry.status(), path + ": tensor " + JsonQuote(tensor.name));
    header.emplace_back(tensor.name, *std::move(entry));
  }
  SafetensorsWriter writer;
  writer.path_ = path;
  writer.remaining_bytes_ = static_cast<size_t>(data_bytes);
  writer.fd_ = open(PartialPath(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (writer.fd_ < 0) return WriteError(PartialPath(path));
  const std::string bytes = HeaderBytes(header);
  RETURN_IF_ERROR(WriteAll(writer.fd_, bytes.data(), bytes.size(), path));
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      remaining_bytes_(other.remaining_bytes_) {}

SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(remaining_bytes_, other.remaining_bytes_);
  return *this;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(PartialPath(path_).c_str());
}

Status SafetensorsWriter::Append(std::span<const std::byte> bytes) {
  if (bytes.size() > remaining_bytes_) {
    return FailedPrecondition(StrCat(path_, ": ", bytes.size() - remaining_bytes_,
                                     " bytes more than the tensors declared"));
  }
  remaining_bytes_ -= bytes.size();
  return WriteAll(fd_, reinterpret_cast<const char*>(bytes.data()), bytes.size(), path_);
}

Status SafetensorsWriter::Finish() {
  if (remaining_bytes_ > 0) {
    return FailedPrecondition(StrCat(path_, ": ", remaining_bytes_, " declared bytes are missing"));
  }
  const std::string partial = PartialPath(path_);
  if (close(std::exchange(fd_, -1)) == 0 && std::rename(partial.c_str(), path_.c_str()) == 0) {
    return OkStatus();
  }
  Status status = WriteError(path_);
  unlink(partial.c_str());
  return status;
}

}  // namespace aril
