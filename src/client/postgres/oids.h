// The numbers of the server's types, from its pg_type.dat; they never change.
#pragma once

#include "client/postgres/libpq.h"

namespace outbox::postgres::oid {

inline constexpr Oid kBool = 16;
inline constexpr Oid kBytea = 17;
inline constexpr Oid kInt8 = 20;
inline constexpr Oid kInt2 = 21;
inline constexpr Oid kInt4 = 23;
inline constexpr Oid kText = 25;
inline constexpr Oid kFloat4 = 700;
inline constexpr Oid kFloat8 = 701;
inline constexpr Oid kByteaArray = 1001;
inline constexpr Oid kTextArray = 1009;
inline constexpr Oid kInt8Array = 1016;
inline constexpr Oid kTimestamptz = 1184;

}  // namespace outbox::postgres::oid
