// The files of an adapter, from wherever its source says.

#ifndef ARIL_SOURCES_ADAPTER_FETCHER_H_
#define ARIL_SOURCES_ADAPTER_FETCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/transfer_monitor.h"
#include "sources/http_transport.h"
#include "sources/source_policy.h"
#include "sources/source_url.h"

namespace aril {

struct WantedFile {
  std::string name;  // relative to the source, and to the folder that it is written to
  bool required = false;
  int64_t max_bytes = 0;
  // By what has been written to the folder before it, if it is not wanted always.
  std::function<bool(const std::string& dir)> is_wanted = nullptr;
};

// Thread-safe.
class AdapterFetcher {
 public:
  using MakeTransport = std::function<std::unique_ptr<HttpTransport>(const SourcePolicy&)>;
  // `clock` must outlive it.
  AdapterFetcher(SourcePolicy policy, const Clock& clock,
                 MakeTransport make_transport = &MakeHttpTransport)
      : policy_(std::move(policy)), clock_(clock), make_transport_(std::move(make_transport)) {}

  // InvalidArgument if the source is malformed or not allowed. Touches nothing.
  Status Check(const std::string& source) const;

  // Writes the files that there are to `dir`, an existing folder. NotFound if a required one is
  // not there; else the errors of Check and of Downloader. What is written when it fails is left.
  // A hub's branch or tag is looked up once, so that all files are of one commit.
  Status Fetch(const std::string& source, std::span<const WantedFile> files, const std::string& dir,
               TransferMonitor& monitor) const;

  const SourcePolicy& policy() const { return policy_; }

 private:
  const SourcePolicy policy_;
  const Clock& clock_;
  const MakeTransport make_transport_;
};

}  // namespace aril

#endif  // ARIL_SOURCES_ADAPTER_FETCHER_H_
