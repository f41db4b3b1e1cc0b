# SPDX-License-Identifier: PostgreSQL
# One interface target carries the language, the warnings and the sanitizers of every target of ours.

add_library(pgleader_warnings INTERFACE)
target_compile_features(pgleader_warnings INTERFACE c_std_17)
target_compile_definitions(pgleader_warnings INTERFACE _GNU_SOURCE PGLEADER_VERSION="${PROJECT_VERSION}")
target_include_directories(pgleader_warnings INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(pgleader_warnings INTERFACE
  -Wall -Wextra -Wformat=2 -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
  -Wwrite-strings -Wundef -Wvla -Wswitch-enum)
if(PGLEADER_WERROR)
  target_compile_options(pgleader_warnings INTERFACE -Werror)
endif()
if(PGLEADER_SANITIZE)
  target_compile_options(pgleader_warnings INTERFACE -fsanitize=${PGLEADER_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(pgleader_warnings INTERFACE -fsanitize=${PGLEADER_SANITIZE})
endif()
if(PGLEADER_FUZZ)
  target_compile_options(pgleader_warnings INTERFACE -fsanitize=fuzzer-no-link)
endif()

# pgleader_library(NAME SOURCES... ): a static library pgleader_NAME with the alias pgleader::NAME. All of it may
# become part of libpgleader, which shows only its own names.
function(pgleader_library name)
  add_library(pgleader_${name} STATIC ${ARGN})
  add_library(pgleader::${name} ALIAS pgleader_${name})
  target_link_libraries(pgleader_${name} PUBLIC pgleader_warnings)
  set_target_properties(pgleader_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endfunction()
