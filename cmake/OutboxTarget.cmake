# One way to declare the project's targets: same warnings, same sanitizers.

find_package(Threads REQUIRED)

add_library(outbox_build_flags INTERFACE)
target_compile_features(outbox_build_flags INTERFACE cxx_std_20)
target_compile_options(outbox_build_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<BOOL:${OUTBOX_WARNINGS_AS_ERRORS}>:-Werror>)
if(OUTBOX_SANITIZE)
  target_compile_options(outbox_build_flags INTERFACE
    -fsanitize=${OUTBOX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(outbox_build_flags INTERFACE -fsanitize=${OUTBOX_SANITIZE})
endif()

# outbox_library(<name> FOLDERS <dir>... [LINK <target>...] [PRIVATE_LINK <target>...])
# Builds outbox_<name>, alias outbox::<name>, from the sources of the folders.
function(outbox_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;LINK;PRIVATE_LINK" ${ARGN})
  set(sources)
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc")
    list(APPEND sources ${found})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  add_library(outbox_${name} ${sources})
  add_library(outbox::${name} ALIAS outbox_${name})
  set_target_properties(outbox_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(outbox_${name} PUBLIC cxx_std_20)
  target_include_directories(outbox_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(outbox_${name}
    PUBLIC ${ARG_LINK} Threads::Threads
    PRIVATE $<BUILD_INTERFACE:outbox_build_flags> ${ARG_PRIVATE_LINK})
endfunction()

# outbox_program(<name> SOURCES <file>... [LINK <target>...])
function(outbox_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE outbox_build_flags ${ARG_LINK})
endfunction()

# outbox_test(<name> FOLDERS <dir>... [LINK <target>...] [LABELS <label>...])
# Builds <name> from the *_test.cc files of the folders and registers each test.
function(outbox_test name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;LINK;LABELS" ${ARGN})
  set(sources)
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS "${folder}/*_test.cc")
    list(APPEND sources ${found})
  endforeach()
  if(NOT sources)
    return()
  endif()
  outbox_program(${name} SOURCES ${sources} LINK ${ARG_LINK} GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300)
endfunction()
