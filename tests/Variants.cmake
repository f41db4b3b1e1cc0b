# SPDX-License-Identifier: PostgreSQL
# The same tests on other builds: AddressSanitizer with UBSan, ThreadSanitizer, valgrind, and short fuzz runs.
# Label "slow" is all of these: `ctest -LE slow` leaves them out.

set(run ${CMAKE_CURRENT_SOURCE_DIR}/support/variant)
set(FUZZ_SECONDS 20 CACHE STRING "How long each fuzz harness runs")

# variant_build(PRESET): a test that builds the preset, and that the preset's other tests need.
function(variant_build preset)
  add_test(NAME ${preset}/build COMMAND ${run} build ${preset} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${preset}/build PROPERTIES FIXTURES_SETUP ${preset} RUN_SERIAL TRUE TIMEOUT 900 LABELS "slow;${preset}")
endfunction()

# variant_unit(VARIANT UNIT PROGRAM)
function(variant_unit variant unit program)
  add_test(NAME ${variant}/${unit} COMMAND ${run} ${variant} ${program} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${variant}/${unit} PROPERTIES TIMEOUT 300 LABELS "slow;${variant}")
  if("serial" IN_LIST words)
    set_tests_properties(${variant}/${unit} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

# variant_pytest(VARIANT FILE BIN WORDS...)
function(variant_pytest variant file bin)
  string(REGEX REPLACE "\\.py$" "" name ${variant}/${file})
  add_test(NAME ${name} COMMAND ${run} ${variant} ${PYTEST} ${CMAKE_CURRENT_SOURCE_DIR}/${file}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS "slow;${variant}"
    ENVIRONMENT "PGLEADER_BIN=${bin};PGLEADER_VARIANT=${variant};PYTHONDONTWRITEBYTECODE=1")
  if("serial" IN_LIST ARGN)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

set(presets ${CMAKE_SOURCE_DIR}/build)
foreach(preset asan tsan)
  variant_build(${preset})
endforeach()

foreach(file IN LISTS units)
  get_filename_component(name ${file} NAME_WE)
  ctest_words(${file} words)
  variant_unit(asan unit/${name} ${presets}/asan/bin/${name})
  set_tests_properties(asan/unit/${name} PROPERTIES FIXTURES_REQUIRED asan)
  if(NOT "quick" IN_LIST words)
    variant_unit(valgrind unit/${name} ${CMAKE_BINARY_DIR}/bin/${name})
  endif()
  if("tsan" IN_LIST words)
    variant_unit(tsan unit/${name} ${presets}/tsan/bin/${name})
    set_tests_properties(tsan/unit/${name} PROPERTIES FIXTURES_REQUIRED tsan)
  endif()
endforeach()

# A folder of programs that are the real ones under valgrind.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/valgrind)
foreach(program pgleader_exporter ${library_programs})
  file(WRITE ${CMAKE_BINARY_DIR}/valgrind/${program}
    "#!/bin/sh\nexec ${run} valgrind ${CMAKE_BINARY_DIR}/bin/${program} \"$@\"\n")
  file(CHMOD ${CMAKE_BINARY_DIR}/valgrind/${program} PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()

foreach(file IN LISTS scripts)
  ctest_words(${file} words)
  foreach(preset asan tsan)
    if(${preset} IN_LIST words)
      variant_pytest(${preset} ${file} ${presets}/${preset}/bin ${words})
      string(REGEX REPLACE "\\.py$" "" name ${preset}/${file})
      set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED ${preset})
    endif()
  endforeach()
  if("valgrind" IN_LIST words)
    variant_pytest(memcheck ${file} ${CMAKE_BINARY_DIR}/valgrind ${words})
  endif()
endforeach()

if(harnesses)
  variant_build(fuzz)
endif()
foreach(file IN LISTS harnesses)
  get_filename_component(name ${file} NAME_WE)
  add_test(NAME fuzz/${name} COMMAND ${run} fuzz ${presets}/fuzz/bin/${name} ${FUZZ_SECONDS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT 300 LABELS "slow;fuzz" FIXTURES_REQUIRED fuzz)
endforeach()
