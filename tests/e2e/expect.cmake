# Runs `program` with `arguments` and fails unless it ends with the exit code
# `exit` and its output matches each regex of `says`. Lists are joined by newlines.
string(REPLACE "\n" ";" arguments "${arguments}")
string(REPLACE "\n" ";" says "${says}")

execute_process(COMMAND "${program}" ${arguments}
                RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("${output}")
# What a demo keeps for inspection is of no use when it failed on purpose.
if(result STREQUAL exit AND output MATCHES "kept in ([^;]+/outbox-demo-[^/;]+);")
  file(REMOVE_RECURSE "${CMAKE_MATCH_1}")
endif()
if(NOT result STREQUAL exit)
  message(FATAL_ERROR "the exit code is ${result}, not ${exit}")
endif()
foreach(regex IN LISTS says)
  if(NOT output MATCHES "${regex}")
    message(FATAL_ERROR "the output does not match: ${regex}")
  endif()
endforeach()
