// JsonSchemaGrammar on any bytes; the texts that a grammar allows must be JSON, and can always be
// brought to an end.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "grammar/automaton.h"
#include "grammar/json_schema.h"

namespace {

using aril::grammar::Automaton;

// The bytes that a text may go on with, the ones that end texts first, from another one at every
// step; so that most walks end.
int NextByte(Automaton& automaton, Automaton::State state, size_t step) {
  for (const char byte : std::string_view("}]\"")) {
    if (step % 3 != 0 && Automaton::IsState(automaton.Next(state, static_cast<uint8_t>(byte)))) {
      return static_cast<uint8_t>(byte);
    }
  }
  for (size_t i = 0; i < 256; ++i) {
    const auto byte = static_cast<uint8_t>(i + 31 * step);
    if (Automaton::IsState(automaton.Next(state, byte))) return byte;
  }
  return -1;
}

bool HasTooManyWays(Automaton& automaton, Automaton::State state) {
  for (int byte = 0; byte < 256; ++byte) {
    if (automaton.Next(state, static_cast<uint8_t>(byte)) == Automaton::kTooManyWays) return true;
  }
  return false;
}

void Walk(Automaton& automaton, size_t step) {
  std::string text;
  Automaton::State state = automaton.start();
  for (const size_t end = step + 300; step < end && !automaton.IsComplete(state); ++step) {
    const int byte = NextByte(automaton, state, step);
    if (byte < 0) {  // else a dead end
      CHECK(HasTooManyWays(automaton, state));
      return;
    }
    text.push_back(static_cast<char>(byte));
    state = automaton.Next(state, static_cast<uint8_t>(byte));
  }
  // With additional properties names may come twice, which Parse does not take.
  if (!automaton.IsComplete(state)) return;
  const auto json = aril::Json::Parse(text);
  CHECK(json.ok() || aril::Message(json.status()).find("duplicate key") != std::string::npos ||
        aril::Message(json.status()).find("nested deeper") != std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto grammar =
      aril::grammar::JsonSchemaGrammar(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!grammar.ok()) {
    CHECK(!aril::Message(grammar.status()).empty());
    return 0;
  }
  Automaton automaton(*std::move(grammar));
  if (!Automaton::IsState(automaton.start())) return 0;
  for (size_t i = 0; i < 8; ++i) Walk(automaton, 1000 * i);
  return 0;
}
