/* src/base/sanitizer.h: whether this build has a sanitizer, which needs the allocator and system calls for itself.
 * Thread: any. */
#ifndef BELFRY_BASE_SANITIZER_H
#define BELFRY_BASE_SANITIZER_H

#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BELFRY_HAS_SANITIZER true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define BELFRY_HAS_SANITIZER true
#endif
#endif
#ifndef BELFRY_HAS_SANITIZER
#define BELFRY_HAS_SANITIZER false
#endif

#endif
