# Sets outbox_version to what include/outbox/version.h says, e.g. 1.2.3.
set(header "${CMAKE_CURRENT_SOURCE_DIR}/include/outbox/version.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
file(STRINGS "${header}" lines REGEX "^#define OUTBOX_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$")
list(TRANSFORM lines REPLACE ".* " "")
list(JOIN lines "." outbox_version)
if(NOT outbox_version MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
  message(FATAL_ERROR "${header} says version '${outbox_version}': it needs OUTBOX_VERSION_MAJOR, "
    "_MINOR and _PATCH, in this order, each a number")
endif()
