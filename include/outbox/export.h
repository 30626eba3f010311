// Declares what the shared libraries export; everything else is hidden.
#pragma once

// The static libraries are compiled with OUTBOX_STATIC, which the CMake package and
// the pkg-config files pass on: a program or library that links them does not
// export their symbols as its own.
#if defined(OUTBOX_STATIC)
#define OUTBOX_EXPORT
#else
#define OUTBOX_EXPORT [[gnu::visibility("default")]]
#endif
