// Updates what the shared libraries show to their users; everything else is hidden.
#pragma once

// The static libraries are made with OUTBOX_STATIC, which the CMake package and
// the pkg-config files pass on: a program or library that contains them does not
// show their symbols as its own.
#if defined(OUTBOX_STATIC)
#define OUTBOX_EXPORT
#else
#define OUTBOX_EXPORT [[gnu::visibility("default")]]
#endif
