# check_headers: every header of src/ compiles alone, so that each includes what it uses. Where a .cc of the
# same name includes it first, the build itself shows that; the others are compiled here, alone and twice.
# Ninja rebuilds only what a change touches. Not part of `all`.

file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR}/src CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.h)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(FILTER headers EXCLUDE REGEX "_avx512\\.h$")
endif()
if(NOT ARIL_SERVER)
  list(FILTER headers EXCLUDE REGEX "^(gateway|apps)/")
endif()

set(check_sources "")
foreach(header ${headers})
  string(REGEX REPLACE "\\.h$" ".cc" source ${CMAKE_SOURCE_DIR}/src/${header})
  if(EXISTS ${source})
    file(STRINGS ${source} includes REGEX "^#include")
    list(APPEND includes none)
    list(GET includes 0 first)
    if(first STREQUAL "#include \"${header}\"")
      continue()
    endif()
  endif()
  string(REPLACE "/" "." unit ${header})
  set(unit ${CMAKE_BINARY_DIR}/check_headers/${unit}.cc)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
  if(header MATCHES "_avx512\\.h$")
    set_source_files_properties(${unit} PROPERTIES COMPILE_OPTIONS "${ARIL_AVX512_FLAGS};-UARIL_ISA;-DARIL_ISA=avx512")
  endif()
  list(APPEND check_sources ${unit})
endforeach()

add_library(check_headers OBJECT EXCLUDE_FROM_ALL ${check_sources})
target_link_libraries(check_headers PRIVATE aril_flags)
# nvcc's `#pragma unroll` is nothing to the host's compiler.
target_compile_options(check_headers PRIVATE -O0 -g0 -Wno-unknown-pragmas)
# kernels/cpu/simd.h is compiled once per instruction set.
target_compile_definitions(check_headers PRIVATE ARIL_ISA=portable)

