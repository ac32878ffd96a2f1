// Whether this is compiled under a sanitizer, whichever compiler it is: ARIL_ASAN and ARIL_TSAN are
// 1 or 0.

#ifndef ARIL_BASE_SANITIZERS_H_
#define ARIL_BASE_SANITIZERS_H_

#ifdef __has_feature  // Clang
#define ARIL_HAS_FEATURE(feature) __has_feature(feature)
#else
#define ARIL_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || ARIL_HAS_FEATURE(address_sanitizer)
#define ARIL_ASAN 1
#else
#define ARIL_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || ARIL_HAS_FEATURE(thread_sanitizer)
#define ARIL_TSAN 1
#else
#define ARIL_TSAN 0
#endif

#endif  // ARIL_BASE_SANITIZERS_H_
