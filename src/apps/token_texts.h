// What the tokens of a vocabulary add to a text, for formats of outputs.

#ifndef ARIL_APPS_TOKEN_TEXTS_H_
#define ARIL_APPS_TOKEN_TEXTS_H_

#include <string>
#include <vector>

#include "spec/model_spec.h"
#include "tokenizer/tokenizer.h"

namespace aril {

// By token, of all that the tokenizer or the model has, as a grammar::TokenTable wants them. Empty:
// what ends a text, by the model or the tokenizer, is padding, or is in no text of valid UTF-8.
std::vector<std::string> TokenTexts(const Tokenizer& tokenizer, const ModelSpec& spec);

}  // namespace aril

#endif  // ARIL_APPS_TOKEN_TEXTS_H_
