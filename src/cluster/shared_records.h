// The values that processes share in etcd, as JSON.

#ifndef ARIL_CLUSTER_SHARED_RECORDS_H_
#define ARIL_CLUSTER_SHARED_RECORDS_H_

#include <string>

#include "base/status.h"
#include "catalog/name_store.h"
#include "cluster/shared_names.h"

namespace aril::cluster {

std::string ToText(const RegisteredAdapter& row);
std::string ToText(const SharedGeneration& generation);

// InvalidArgument says what is wrong: people can write to etcd, too. Members of other names are
// passed over, as a newer release may have written them.
StatusOr<RegisteredAdapter> ReadRow(const std::string& text);
StatusOr<SharedGeneration> ReadGeneration(const std::string& text);

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_SHARED_RECORDS_H_
