// Regular expressions as formats of outputs, on any bytes; the texts that they allow are valid
// UTF-8, and can always be brought to an end.

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "grammar/automaton.h"
#include "grammar/compile.h"

namespace {

using aril::grammar::Automaton;

// Takes another one of the bytes that a text may go on with at every step.
void Walk(Automaton& automaton, size_t step) {
  std::string text;
  Automaton::State state = automaton.start();
  for (const size_t end = step + 100; step < end && automaton.HasNext(state); ++step) {
    int found = -1;
    bool has_too_many = false;
    for (size_t i = 0; i < 256 && found < 0; ++i) {
      const auto byte = static_cast<uint8_t>(i + 31 * step);
      const Automaton::State next = automaton.Next(state, byte);
      if (Automaton::IsState(next)) found = byte;
      has_too_many |= next == Automaton::kTooManyWays;
    }
    if (found < 0 && has_too_many) return;
    CHECK(found >= 0);
    text.push_back(static_cast<char>(found));
    state = automaton.Next(state, static_cast<uint8_t>(found));
  }
  CHECK(automaton.HasNext(state) || automaton.IsComplete(state));  // else a dead end
  if (automaton.IsComplete(state)) CHECK(aril::IsValidUtf8(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto grammar =
      aril::grammar::Compile({.kind = aril::wire::OutputFormat::Kind::kRegex,
                              .source = std::string(reinterpret_cast<const char*>(data), size)});
  if (!grammar.ok()) {
    CHECK(!aril::Message(grammar.status()).empty());
    return 0;
  }
  Automaton automaton(*std::move(grammar));
  if (!Automaton::IsState(automaton.start())) return 0;
  for (size_t i = 0; i < 8; ++i) Walk(automaton, 1000 * i);
  return 0;
}
