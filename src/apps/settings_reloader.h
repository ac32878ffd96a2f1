// Reads files with settings again when they have changed.

#ifndef ARIL_APPS_SETTINGS_RELOADER_H_
#define ARIL_APPS_SETTINGS_RELOADER_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file_watch.h"
#include "base/status.h"

namespace aril {

class SettingsReloader {
 public:
  struct Setting {
    std::string flag;  // that names the files
    FileWatch files;
    // Reads them and, if that goes well, puts what they say into effect. On the reloader's thread.
    std::function<Status()> reload;
  };
  // After each attempt.
  using Report = std::function<void(const std::string& flag, const Status& outcome)>;

  // Looks for changes now and then, on a thread of its own, until its end. No settings: no thread.
  SettingsReloader(std::vector<Setting> settings, Duration interval, Report report);
  SettingsReloader(const SettingsReloader&) = delete;
  SettingsReloader& operator=(const SettingsReloader&) = delete;
  ~SettingsReloader();

 private:
  void Run(Duration interval);
  void Check();

  std::vector<Setting> settings_;  // its thread's
  const Report report_;
  std::mutex mutex_;
  std::condition_variable end_;
  bool has_ended_ = false;  // guarded by the mutex
  std::thread thread_;      // last: sees everything above
};

}  // namespace aril

#endif  // ARIL_APPS_SETTINGS_RELOADER_H_
