#include "gateway/remote_loader.h"

#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace aril::gateway {

Status CheckDigests(const GenerationStore::Incoming& incoming, const ExpectedDigests& expected) {
  for (const auto& [name, digest] : expected.files) {
    const std::string path = incoming.dir() + "/" + name;
    if (!FileExists(path)) {
      return InvalidArgument(StrCat("a SHA-256 is given for ", name, ", which is not there"));
    }
    ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    if (const std::string found = Sha256(file.bytes()); found != digest) {
      return InvalidArgument(StrCat(name, " has the SHA-256 ", found, ", not ", digest));
    }
  }
  if (expected.generation.empty() || expected.generation == incoming.digest()) return OkStatus();
  return InvalidArgument(
      StrCat("the files are generation ", incoming.digest(), ", not ", expected.generation));
}

}  // namespace aril::gateway
