# How tests are registered with ctest.
include(GoogleTest)

# Without it libmariadb would read all certificates of the system for each connection with TLS,
# which takes longer than most tests do.
set(OUTBOX_TEST_ENVIRONMENT SSL_CERT_FILE=/dev/null)

# outbox_run(<name> COMMAND <program> <argument>... [LABELS <label>...]
#            [PROPERTIES <property> <value>...])
# Registers what is no program of GoogleTest's. It ends with 77 where it cannot be run.
function(outbox_run name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "COMMAND;LABELS;PROPERTIES")
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES
    LABELS "${ARG_LABELS}" TIMEOUT 120 SKIP_RETURN_CODE 77 ${ARG_PROPERTIES})
endfunction()

# outbox_test(<name> FOLDERS <dir>... [NEEDS <part>...] [SOURCES <file>...] [LINK <target>...]
#             [LABELS <label>...] [DEFINITIONS <name>=<value>...])
# Builds <name> from the *_test.cc files of the folders (see outbox_glob), and registers each of
# its tests with ctest, labelled <name> without its _test if nothing else is said. Left out where a
# part is not built that it needs. SOURCES are helpers that the tests share.
#
# Tests that take more than a few seconds live in *_long_test.cc files: those
# make a program of their own, <name>_long, whose tests also have the label
# `long`, which `scripts/test --quick` and the sanitizer runs leave out. Tests whose
# name begins with Postgres, Mysql or Redis also have the label `postgres`, `mysql` or `redis`.
function(outbox_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "FOLDERS;NEEDS;SOURCES;LINK;LABELS;DEFINITIONS")
  foreach(part IN LISTS ARG_NEEDS)
    if(NOT TARGET outbox_${part})
      return()
    endif()
  endforeach()
  if(NOT ARG_LABELS)
    string(REGEX REPLACE "_test$" "" ARG_LABELS ${name})
  endif()
  outbox_glob(sources "*_test.cc" ${ARG_FOLDERS})
  set(long_sources ${sources})
  list(FILTER sources EXCLUDE REGEX "_long_test\\.cc$")
  list(FILTER long_sources INCLUDE REGEX "_long_test\\.cc$")
  if(sources)
    _outbox_test_program(${name} 120 "${sources}" "${ARG_LABELS}")
  endif()
  if(long_sources)
    _outbox_test_program(${name}_long 600 "${long_sources}" "${ARG_LABELS};long")
  endif()
endfunction()

# Uses the arguments of outbox_test besides its own.
function(_outbox_test_program program timeout test_sources labels)
  outbox_program(${program} SOURCES ${test_sources} ${ARG_SOURCES} LINK ${ARG_LINK} GTest::gtest_main)
  target_compile_definitions(${program} PRIVATE ${ARG_DEFINITIONS})
  # For #include "..." alone: a folder may have a mysql.h of its own.
  foreach(folder IN LISTS ARG_FOLDERS)
    target_compile_options(${program} PRIVATE "SHELL:-iquote ${folder}")
  endforeach()
  gtest_discover_tests(${program} NO_PRETTY_TYPES NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT ${timeout} ENVIRONMENT ${OUTBOX_TEST_ENVIRONMENT})
  # Not by PROPERTIES: that keeps only the first label of a list.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${program}_labels.cmake")
  file(CONFIGURE OUTPUT "${labels_file}" @ONLY CONTENT [[
if(NOT DEFINED @program@_TESTS)
  set(@program@_TESTS @program@_NOT_BUILT)  # what gtest_discover_tests registers then
endif()
foreach(test IN LISTS @program@_TESTS)
  set(labels "@labels@")
  if(test MATCHES "^(Postgres|Mysql|Redis)")
    string(TOLOWER "${CMAKE_MATCH_1}" server)
    list(APPEND labels ${server})
  endif()
  set_tests_properties("${test}" PROPERTIES LABELS "${labels}")
endforeach()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()
