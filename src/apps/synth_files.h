// The small files around synthetic weights.

#ifndef ARIL_APPS_SYNTH_FILES_H_
#define ARIL_APPS_SYNTH_FILES_H_

#include <string>

#include "base/json.h"
#include "base/status.h"

namespace aril {

// Makes the directory with its parents. FailedPrecondition if it is there and not empty: nothing is
// ever overwritten.
Status CreateEmptyDirectory(const std::string& dir);

// Writes JSON text and a line feed.
Status WriteJsonFile(const std::string& path, const Json& json);

// Copies what `from` has of a Hugging Face tokenizer's files. NotFound if there is no tokenizer.
Status CopyTokenizerFiles(const std::string& from, const std::string& to);

}  // namespace aril

#endif  // ARIL_APPS_SYNTH_FILES_H_
