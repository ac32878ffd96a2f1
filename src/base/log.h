// Structured-enough logging behind one file. Prompts and outputs are never logged: ids, counts and
// times only.

#ifndef ARIL_BASE_LOG_H_
#define ARIL_BASE_LOG_H_

#include <string>

namespace aril {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines below `level` are dropped. The default is kInfo. Thread-safe.
void SetLogLevel(LogLevel level);

// One line to standard error, with time and level. Thread-safe.
void Log(LogLevel level, const std::string& message);

inline void LogInfo(const std::string& message) { Log(LogLevel::kInfo, message); }
inline void LogWarning(const std::string& message) { Log(LogLevel::kWarning, message); }
inline void LogError(const std::string& message) { Log(LogLevel::kError, message); }

// Logs an error and ends the process with status 1, without destructors: for what a process cannot
// go on after, and is no bug of ours.
[[noreturn]] void ExitWithError(const std::string& message);

}  // namespace aril

#endif  // ARIL_BASE_LOG_H_
