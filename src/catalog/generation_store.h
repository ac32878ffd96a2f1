// The files of adapters that a server has taken over, by the digest of what they hold.
//
// DIR/<digest>/ holds what PEFT has saved: adapter_config.json, adapter_model.safetensors, the
// files of a chat template and of a tokenizer where there are any, and a classifier's config.json.
// Such a folder is complete and on disk from the moment it is there: its files are written and
// synced as DIR/incoming-XXXXXX, which then gets its name (rename(2)). Nothing in it ever changes,
// so it may stay mapped.

#ifndef ARIL_CATALOG_GENERATION_STORE_H_
#define ARIL_CATALOG_GENERATION_STORE_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/folder.h"
#include "base/status.h"

namespace aril {

// What an adapter may be read from.
struct AdapterFile {
  const char* name;  // relative to its folder
  bool required;
  int64_t max_bytes;
  bool (*is_read)(const Folder& dir) = nullptr;  // null: in any folder
};
std::span<const AdapterFile> AdapterFiles();
// Their names.
std::vector<std::string> AdapterFileNames();

// The SHA-256, as 64 hexadecimal digits, of a line `NAME SHA-256\n` for each of the files that an
// adapter is read from, in the order above: the same for the same bytes, wherever they lie.
StatusOr<std::string> DigestOfAdapter(const Folder& dir);

// What a folder lists is on disk when this returns.
Status SyncFolder(const std::string& path);

// True for what DigestOfAdapter returns: nothing else becomes a path.
bool IsDigest(const std::string& text);

// Thread-safe, for changes to different digests.
class GenerationStore {
 public:
  // `dir`: DIR/name. Makes the folder if need be, and removes what imports that were cut short have
  // left.
  static StatusOr<GenerationStore> Open(std::string dir);

  // A copy of an adapter's files that has no name yet; removed with this object. Move-only.
  class Incoming {
   public:
    Incoming(Incoming&& other) noexcept
        : dir_(std::exchange(other.dir_, "")), digest_(std::move(other.digest_)) {}
    Incoming& operator=(Incoming&&) = delete;
    ~Incoming();

    const std::string& dir() const { return dir_; }
    const std::string& digest() const { return digest_; }

   private:
    friend class GenerationStore;
    explicit Incoming(std::string dir) : dir_(std::move(dir)) {}

    std::string dir_;
    std::string digest_;
  };
  // What the source's folder opens is what is copied. ResourceExhausted if the disk is full;
  // NotFound or InvalidArgument for what is wrong with the source.
  StatusOr<Incoming> Copy(const Folder& source) const;
  // One without files, for whoever writes them there itself (AdapterFiles, and nothing else), and
  // then has them sealed: they are on disk, but for those that this adapter is not read from, and
  // its digest is known, when Seal returns. NotFound if a file is missing that an adapter must
  // have.
  StatusOr<Incoming> Begin() const;
  static Status Seal(Incoming* incoming);
  // Names a copy: on disk when this returns. One that is here already is left as it is.
  Status Keep(Incoming incoming) const;

  bool Has(const std::string& digest) const;
  std::string DirOf(const std::string& digest) const { return dir_ + "/" + digest; }
  // All of them, in order.
  StatusOr<std::vector<std::string>> List() const;
  // What is mapped stays readable until it is unmapped.
  Status Remove(const std::string& digest) const;

 private:
  explicit GenerationStore(std::string dir) : dir_(std::move(dir)) {}
  std::string dir_;
};

}  // namespace aril

#endif  // ARIL_CATALOG_GENERATION_STORE_H_
