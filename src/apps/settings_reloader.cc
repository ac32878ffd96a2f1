#include "apps/settings_reloader.h"

#include <exception>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace aril {
namespace {

// What a library throws (out of memory above all) must not end the process.
Status ReloadSafely(const std::function<Status()>& reload) {
  try {
    return reload();
  } catch (const std::exception& exception) {
    return Internal(exception.what());
  }
}

}  // namespace

SettingsReloader::SettingsReloader(std::vector<Setting> settings, Duration interval, Report report)
    : settings_(std::move(settings)), report_(std::move(report)) {
  if (!settings_.empty()) thread_ = std::thread([this, interval] { Run(interval); });
}

SettingsReloader::~SettingsReloader() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  end_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SettingsReloader::Run(Duration interval) {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, interval, [this] { return has_ended_; })) {
    lock.unlock();
    Check();
    lock.lock();
  }
}

void SettingsReloader::Check() {
  for (Setting& setting : settings_) {
    if (!setting.files.HasChanged()) continue;
    const Status outcome = ReloadSafely(setting.reload);
    if (outcome.ok()) {
      LogInfo(StrCat(setting.flag, ": read again, as it has changed"));
    } else {
      LogWarning(StrCat(setting.flag,
                        " has changed, but what it said before still holds: ", Message(outcome)));
    }
    report_(setting.flag, outcome);
  }
}

}  // namespace aril
