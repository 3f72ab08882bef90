# Installs the build into a fresh prefix, builds a project that finds it there, and runs both that
# project's program and the installed one.

set(prefix ${scratch}/prefix)
file(REMOVE_RECURSE ${prefix} ${scratch}/consumer)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message("${output}")
    message(FATAL_ERROR "${command}: ${result}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${build} --prefix ${prefix})
run(${CMAKE_COMMAND} -S ${consumer} -B ${scratch}/consumer -G ${generator}
    -DCMAKE_CXX_COMPILER=${compiler} -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${scratch}/consumer)
run(${scratch}/consumer/consumer)
if(NOT output STREQUAL "1600000000 bytes\n")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()

run(${prefix}/bin/membudget --version)
if(NOT output STREQUAL "membudget ${version}\n")
  message(FATAL_ERROR "the installed program printed: ${output}")
endif()
