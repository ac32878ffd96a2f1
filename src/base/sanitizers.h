// Whether this is compiled under a sanitizer, whichever compiler it is: ARIL_ASAN and ARIL_TSAN are
// 1 or 0.

#ifndef ARIL_BASE_SANITIZERS_H_
#define ARIL_BASE_SANITIZERS_H_

#define ARIL_ASAN 0
#define ARIL_TSAN 0

#if defined(__SANITIZE_ADDRESS__)
#undef ARIL_ASAN
#define ARIL_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#undef ARIL_TSAN
#define ARIL_TSAN 1
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#undef ARIL_ASAN
#define ARIL_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#undef ARIL_TSAN
#define ARIL_TSAN 1
#endif
#endif

#endif  // ARIL_BASE_SANITIZERS_H_
