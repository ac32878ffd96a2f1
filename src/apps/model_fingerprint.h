// Telling base models apart without reading them whole.

#ifndef ARIL_APPS_MODEL_FINGERPRINT_H_
#define ARIL_APPS_MODEL_FINGERPRINT_H_

#include <string>

#include "base/status.h"

namespace aril {

// The SHA-256 of a list: config.json's, and the name, the size and a digest of each file of
// weights: of all its bytes up to 64 MiB; of a larger one's both ends and, between them, of 4 KiB
// in every MiB (of 4,096 places in a file above 4 GiB), so that a model whose matrices have
// changed, as when an adapter was merged into them, has another fingerprint.
StatusOr<std::string> ModelFingerprint(const std::string& model_dir);

}  // namespace aril

#endif  // ARIL_APPS_MODEL_FINGERPRINT_H_
