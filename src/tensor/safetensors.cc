// Parsing a safetensors header. The file is untrusted: every size is checked against the bytes that
// are really there before it is used.

#include "tensor/safetensors.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr size_t kLengthBytes = 8;
// The limit of the reference implementation.
constexpr size_t kMaxHeaderBytes = 100'000'000;
// A header is at most metadata or tensors, then an entry, then its shape.
constexpr size_t kMaxHeaderDepth = 3;
// A tensor needs eight, and the largest published checkpoints have some 100,000 tensors.
constexpr size_t kMaxHeaderValues = 4'000'000;

// A name from the file as it may stand in an error message.
std::string Quoted(std::string_view name) {
  constexpr size_t kMaxShown = 120;
  if (name.size() <= kMaxShown) return JsonQuote(name);
  return JsonQuote(name.substr(0, kMaxShown)) + "… (a name of " + StrCat(name.size()) + " bytes)";
}

bool IsText(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || std::isprint(byte) || std::isspace(byte);
  });
}

// What often stands where a safetensors file should be; nullopt if `file` is none of these.
std::optional<std::string> RecognizeImpostor(std::string_view file) {
  const std::string_view head = file.substr(0, 64);
  if (IsGitLfsPointer(file)) {
    return "a Git LFS pointer, not the weights themselves: fetch them with `git lfs pull`";
  }
  if (file.starts_with("PK\x03\x04") || file.starts_with("\x80\x02")) {
    return "a PyTorch pickle file, not safetensors: pickle files can run code and are not read; "
           "save the weights with safe_serialization=True";
  }
  if (!file.empty() && IsText(head)) {
    return "a text file, not safetensors (it starts with " + JsonQuote(head.substr(0, 24)) + ")";
  }
  return std::nullopt;
}

// The JSON text of the header.
StatusOr<std::string_view> HeaderText(std::string_view file) {
  uint64_t length = 0;
  if (file.size() >= kLengthBytes) {
    for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<uint8_t>(file[i]);
  }
  const bool fits = file.size() >= kLengthBytes && length <= file.size() - kLengthBytes;
  if (!fits || length > kMaxHeaderBytes) {
    if (const auto impostor = RecognizeImpostor(file)) return InvalidArgument(*impostor);
  }
  if (file.size() < kLengthBytes) {
    return InvalidArgument(StrCat(
        "file is ", file.size(), " bytes, shorter than a safetensors header: truncated download?"));
  }
  if (length > kMaxHeaderBytes) {
    return InvalidArgument(
        StrCat("not a safetensors file, or a damaged one: its first 8 bytes give a header of ",
               length, " bytes; at most ", kMaxHeaderBytes, " are allowed"));
  }
  if (!fits) {
    return InvalidArgument(StrCat("file is ", file.size(), " bytes but its header alone takes ",
                                  kLengthBytes + length, ": truncated download?"));
  }
  return file.substr(kLengthBytes, length);
}

StatusOr<Json> ParseHeader(std::string_view text) {
  if (!text.starts_with('{')) {
    return InvalidArgument("not a safetensors file: its header does not start with '{'");
  }
  auto header = Json::Parse(
      text,
      {.max_bytes = kMaxHeaderBytes, .max_depth = kMaxHeaderDepth, .max_values = kMaxHeaderValues});
  if (!header.ok()) return Annotate(header.status(), "safetensors header");
  return header;
}

// One tensor as the header declares it: bytes [begin, end) of the data section.
struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

StatusOr<std::vector<int64_t>> ReadCounts(const Json& value, std::string_view what) {
  const Json::Array* items = value.AsArray();
  if (items == nullptr) {
    return InvalidArgument(StrCat(what, " must be an array of integers, not ", value.KindName()));
  }
  std::vector<int64_t> counts;
  counts.reserve(items->size());
  for (const Json& item : *items) {
    const int64_t* count = item.AsInt();
    if (count == nullptr || *count < 0) {
      return InvalidArgument(StrCat(what, " must hold integers from 0 to 2^63-1"));
    }
    counts.push_back(*count);
  }
  return counts;
}

StatusOr<uint64_t> SizeBytes(DType dtype, const Shape& shape) {
  std::optional<int64_t> size = static_cast<int64_t>(SizeOf(dtype));
  for (const int64_t dim : shape) {
    size = CheckedMul(*size, dim);
    if (!size) return InvalidArgument("shape " + ToString(shape) + " overflows");
  }
  return static_cast<uint64_t>(*size);
}

// The three required members of an entry, and no others.
struct EntryMembers {
  const Json* dtype = nullptr;
  const Json* shape = nullptr;
  const Json* data_offsets = nullptr;
};

StatusOr<EntryMembers> FindMembers(const Json& value) {
  if (value.AsObject() == nullptr) {
    return InvalidArgument("must be an object, not " + value.KindName());
  }
  EntryMembers members;
  for (const auto& [key, member] : *value.AsObject()) {
    if (key == "dtype") {
      members.dtype = &member;
    } else if (key == "shape") {
      members.shape = &member;
    } else if (key == "data_offsets") {
      members.data_offsets = &member;
    } else {
      return InvalidArgument("unknown key " + Quoted(key));
    }
  }
  if (!members.dtype) return InvalidArgument("\"dtype\" is missing");
  if (!members.shape) return InvalidArgument("\"shape\" is missing");
  if (!members.data_offsets) return InvalidArgument("\"data_offsets\" is missing");
  return members;
}

StatusOr<Entry> ReadEntry(const std::string& name, const Json& value) {
  ASSIGN_OR_RETURN(const EntryMembers members, FindMembers(value));
  const std::string* dtype_name = members.dtype->AsString();
  if (dtype_name == nullptr) {
    return InvalidArgument("dtype must be a string, not " + members.dtype->KindName());
  }
  const std::optional<DType> dtype = DTypeFromName(*dtype_name);
  if (!dtype) return InvalidArgument("unknown dtype " + Quoted(*dtype_name));
  ASSIGN_OR_RETURN(Shape shape, ReadCounts(*members.shape, "shape"));
  ASSIGN_OR_RETURN(const auto offsets, ReadCounts(*members.data_offsets, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return InvalidArgument("data_offsets must be [begin, end] with begin ≤ end, not " +
                           ToString(offsets));
  }
  ASSIGN_OR_RETURN(const uint64_t size_bytes, SizeBytes(*dtype, shape));
  if (static_cast<uint64_t>(offsets[1] - offsets[0]) != size_bytes) {
    return InvalidArgument(StrCat("data_offsets ", ToString(offsets), " hold ",
                                  offsets[1] - offsets[0], " bytes but ", *dtype, " ",
                                  ToString(shape), " takes ", size_bytes));
  }
  return Entry{name, *dtype, std::move(shape), static_cast<uint64_t>(offsets[0]),
               static_cast<uint64_t>(offsets[1])};
}

Status ReadMetadata(const Json& value, std::map<std::string, std::string>* metadata) {
  if (value.AsObject() == nullptr) {
    return InvalidArgument("__metadata__ must be an object, not " + value.KindName());
  }
  for (const auto& [key, member] : *value.AsObject()) {
    if (member.AsString() == nullptr) {
      return InvalidArgument(
          StrCat("__metadata__ ", Quoted(key), " must be a string, not ", member.KindName()));
    }
    metadata->emplace(key, *member.AsString());
  }
  return OkStatus();
}

// Entries must follow one another from 0 to the exact end of the data section. Sorts them.
Status CheckCoverage(std::vector<Entry>& entries, uint64_t data_bytes, uint64_t file_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered) {
      return InvalidArgument(StrCat("tensor ", Quoted(entry.name), " begins at byte ", entry.begin,
                                    " of the data, ", entry.begin < covered ? "inside" : "not at",
                                    " the end of the one before it (byte ", covered, ")"));
    }
    covered = entry.end;
  }
  const uint64_t described_bytes = file_bytes - data_bytes + covered;
  if (covered > data_bytes) {
    return InvalidArgument(StrCat("file is ", file_bytes, " bytes but its header describes ",
                                  described_bytes, ": truncated download?"));
  }
  if (covered < data_bytes) {
    return InvalidArgument(StrCat("file is ", file_bytes, " bytes but its header describes only ",
                                  described_bytes, ": bytes after the last tensor"));
  }
  return OkStatus();
}

}  // namespace

StatusOr<Safetensors> ParseSafetensors(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  ASSIGN_OR_RETURN(const std::string_view header_text, HeaderText(text));
  ASSIGN_OR_RETURN(const Json header, ParseHeader(header_text));

  Safetensors result;
  std::vector<Entry> entries;
  for (const auto& [name, value] : *header.AsObject()) {
    if (name == "__metadata__") {
      RETURN_IF_ERROR(ReadMetadata(value, &result.metadata));
      continue;
    }
    StatusOr<Entry> entry = ReadEntry(name, value);
    if (!entry.ok()) return Annotate(entry.status(), "tensor " + Quoted(name));
    entries.push_back(*std::move(entry));
  }
  const size_t header_end = kLengthBytes + header_text.size();
  RETURN_IF_ERROR(CheckCoverage(entries, file.size() - header_end, file.size()));
  for (Entry& entry : entries) {
    const std::byte* data = file.data() + header_end + entry.begin;
    result.tensors.emplace(std::move(entry.name),
                           TensorView{data, entry.dtype, std::move(entry.shape)});
  }
  return result;
}

StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  return Parse(std::move(file), path);
}

StatusOr<SafetensorsFile> SafetensorsFile::Open(const Folder& folder, const std::string& name) {
  ASSIGN_OR_RETURN(MappedFile file, MapFile(folder, name));
  return Parse(std::move(file), folder.PathOf(name));
}

StatusOr<SafetensorsFile> SafetensorsFile::Parse(MappedFile file, const std::string& path) {
  SafetensorsFile result;
  result.file_ = std::move(file);
  StatusOr<Safetensors> content = ParseSafetensors(result.file_.bytes());
  if (!content.ok()) return Annotate(content.status(), path);
  result.content_ = *std::move(content);
  return result;
}

}  // namespace aril
