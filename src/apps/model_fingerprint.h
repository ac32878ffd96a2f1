// Telling base models apart without reading them whole.

#ifndef ARIL_APPS_MODEL_FINGERPRINT_H_
#define ARIL_APPS_MODEL_FINGERPRINT_H_

#include <string>

#include "base/status.h"

namespace aril {

// The SHA-256 of a list: config.json's, and the name, the size and the digests of both ends of each
// file of weights.
StatusOr<std::string> ModelFingerprint(const std::string& model_dir);

}  // namespace aril

#endif  // ARIL_APPS_MODEL_FINGERPRINT_H_
