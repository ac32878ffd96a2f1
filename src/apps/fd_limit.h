// The limit of open files, of which each connection takes one.

#ifndef ARIL_APPS_FD_LIMIT_H_
#define ARIL_APPS_FD_LIMIT_H_

#include <cstddef>

#include "base/status.h"

namespace aril {

// Raises the soft limit to the hard one: it stands low by default, for programs that use select.
// FailedPrecondition if that is too low for `max_connections` and the program's own files.
Status RaiseFdLimit(size_t max_connections);

}  // namespace aril

#endif  // ARIL_APPS_FD_LIMIT_H_
