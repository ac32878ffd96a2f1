// CHECK: for our own bugs only. Data of a tenant, a file or a client must never be able to reach
// one; those get a Status. A failed CHECK prints both values and ends the process.

#ifndef ARIL_BASE_CHECK_H_
#define ARIL_BASE_CHECK_H_

#include <sstream>
#include <string>

namespace aril::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* expression,
                              const std::string& values);

template <typename A, typename B>
std::string CheckValues(const A& a, const B& b) {
  std::ostringstream out;
  out << "(" << a << " vs " << b << ")";
  return out.str();
}

}  // namespace aril::internal

#define CHECK(condition)                                                 \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::aril::internal::CheckFailed(__FILE__, __LINE__, #condition, ""); \
  } while (false)

#define ARIL_CHECK_OP_(op, a, b)                                                      \
  do {                                                                                \
    const auto& aril_a_ = (a);                                                        \
    const auto& aril_b_ = (b);                                                        \
    if (!(aril_a_ op aril_b_)) [[unlikely]]                                           \
      ::aril::internal::CheckFailed(__FILE__, __LINE__, #a " " #op " " #b,            \
                                    ::aril::internal::CheckValues(aril_a_, aril_b_)); \
  } while (false)

#define CHECK_EQ(a, b) ARIL_CHECK_OP_(==, a, b)
#define CHECK_NE(a, b) ARIL_CHECK_OP_(!=, a, b)
#define CHECK_LT(a, b) ARIL_CHECK_OP_(<, a, b)
#define CHECK_LE(a, b) ARIL_CHECK_OP_(<=, a, b)
#define CHECK_GT(a, b) ARIL_CHECK_OP_(>, a, b)
#define CHECK_GE(a, b) ARIL_CHECK_OP_(>=, a, b)

#ifdef NDEBUG
#define DCHECK(condition) \
  do {                    \
  } while (false && (condition))
#else
#define DCHECK(condition) CHECK(condition)
#endif

#endif  // ARIL_BASE_CHECK_H_
