// What clang's thread-safety analysis (-Wthread-safety) is told; other compilers ignore it.
#pragma once

#if defined(__clang__)
#define OUTBOX_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define OUTBOX_THREAD_ATTRIBUTE(x)
#endif

#define OUTBOX_CAPABILITY(x) OUTBOX_THREAD_ATTRIBUTE(capability(x))
#define OUTBOX_SCOPED_CAPABILITY OUTBOX_THREAD_ATTRIBUTE(scoped_lockable)
#define OUTBOX_GUARDED_BY(x) OUTBOX_THREAD_ATTRIBUTE(guarded_by(x))
#define OUTBOX_REQUIRES(...) OUTBOX_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define OUTBOX_EXCLUDES(...) OUTBOX_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define OUTBOX_ACQUIRE(...) OUTBOX_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define OUTBOX_RELEASE(...) OUTBOX_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
