// Errors from the outside world: absl::Status behind our own names.
//
// The code of a Status decides the HTTP or gRPC status at the edge, and its message is shown to
// users: say what is wrong, where, and what was expected. Our own bugs are CHECKs (base/check.h); a
// full resource is an ordinary return value.

#ifndef ARIL_BASE_STATUS_H_
#define ARIL_BASE_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace aril {

using Status = absl::Status;
using StatusCode = absl::StatusCode;
template <typename T>
using StatusOr = absl::StatusOr<T>;

inline Status OkStatus() { return Status(); }

// Debian's Abseil has its own string_view, so that messages travel as std::string.
inline Status MakeStatus(StatusCode code, const std::string& message) {
  return Status(code, absl::string_view(message.data(), message.size()));
}
inline Status InvalidArgument(const std::string& m) {
  return MakeStatus(StatusCode::kInvalidArgument, m);
}
inline Status NotFound(const std::string& m) { return MakeStatus(StatusCode::kNotFound, m); }
inline Status FailedPrecondition(const std::string& m) {
  return MakeStatus(StatusCode::kFailedPrecondition, m);
}
inline Status ResourceExhausted(const std::string& m) {
  return MakeStatus(StatusCode::kResourceExhausted, m);
}
inline Status Unimplemented(const std::string& m) {
  return MakeStatus(StatusCode::kUnimplemented, m);
}
inline Status Unavailable(const std::string& m) { return MakeStatus(StatusCode::kUnavailable, m); }
inline Status Internal(const std::string& m) { return MakeStatus(StatusCode::kInternal, m); }

inline std::string Message(const Status& status) {
  return std::string(status.message().data(), status.message().size());
}

// The same error with `where: ` in front of its message.
Status Annotate(const Status& status, const std::string& where);

}  // namespace aril

#define ARIL_CONCAT_INNER_(a, b) a##b
#define ARIL_CONCAT_(a, b) ARIL_CONCAT_INNER_(a, b)

// Returns from the enclosing function if `expr` is not OK.
#define RETURN_IF_ERROR(expr)                                                          \
  do {                                                                                 \
    if (::aril::Status aril_status_ = (expr); !aril_status_.ok()) return aril_status_; \
  } while (false)

// `ASSIGN_OR_RETURN(auto x, F())`: declares or assigns `lhs`, or returns the error.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ARIL_ASSIGN_OR_RETURN_(ARIL_CONCAT_(aril_statusor_, __LINE__), lhs, expr)
#define ARIL_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                           \
  if (!tmp.ok()) return tmp.status();          \
  lhs = std::move(tmp).value()

#endif  // ARIL_BASE_STATUS_H_
