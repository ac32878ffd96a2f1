# Compiler settings, and the functions by which each folder of src/ declares its one library, its
# tests, its benchmarks and its fuzz targets.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(THREADS_PREFER_PTHREAD_FLAG ON)

if(ARIL_FUZZ AND (NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16))
  message(FATAL_ERROR "Debug checks are built with Clang 16 or newer; ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID} "
                      "${CMAKE_CXX_COMPILER_VERSION}. tools/deps.sh installs one, or name one with -DARIL_CLANG=PATH. "
                      "A folder that was configured with another compiler must be deleted first: ${CMAKE_BINARY_DIR}")
endif()

find_program(ARIL_CCACHE ccache)
if(ARIL_CCACHE)
  # Paths below the checkout are hashed relative to it: another clone finds what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 ${ARIL_CCACHE})
endif()

# Of the CPU's kernels for AVX-512, and of nothing else (src/kernels).
set(ARIL_AVX512_FLAGS -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16)

add_library(aril_flags INTERFACE)
target_compile_options(aril_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi;-Wno-restrict;-Wno-maybe-uninitialized>
                       -Wno-missing-field-initializers)
target_include_directories(aril_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(ARIL_SANITIZE)
  target_compile_options(aril_flags INTERFACE -fsanitize=${ARIL_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND ARIL_SANITIZE MATCHES "address")
    # GCC's default, too. Looking for uses after return makes tests a third to a half slower, and those of
    # kernels in the emulator, whose threads have stacks of their own, fifteen times.
    target_compile_options(aril_flags INTERFACE -fsanitize-address-use-after-return=never)
  endif()
  target_link_options(aril_flags INTERFACE -fsanitize=${ARIL_SANITIZE})
endif()
# What parses what comes from outside is instrumented for the fuzzer; kernels and what computes with them
# would only be slower.
set(ARIL_FUZZED base wire grammar tensor spec jinja tokenizer catalog sources gateway cluster simulate apps)
# Debug means -O0, except where the tests' time goes; not the tests themselves, which would take
# twice as long to compile, but for those of kernels, which compute what they expect.
foreach(folder base delivery grammar jinja kernels memory scheduler simulate tensor tokenizer)
  set(is_here $<STREQUAL:$<TARGET_PROPERTY:SOURCE_DIR>,${CMAKE_SOURCE_DIR}/src/${folder}>)
  set(is_fast $<OR:$<NOT:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>>,$<STREQUAL:${folder},kernels>>)
  target_compile_options(aril_flags INTERFACE $<$<AND:$<CONFIG:Debug>,${is_here},${is_fast}>:-O1>)
endforeach()

# aril_library(<folder> [SOURCES …] [DEPS <folder>…] [EXTERNAL <target>…])
# DEPS are other folders of src/ and become public; EXTERNAL libraries stay private to the folder,
# so that their headers cannot be included by anybody else by accident. Without SOURCES the folder
# holds headers only. tools/check_layers.py compares DEPS with tools/layers.txt.
function(aril_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;EXTERNAL" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND aril_)
  if(NOT ARG_SOURCES)
    add_library(aril_${name} INTERFACE)
    target_link_libraries(aril_${name} INTERFACE aril_flags ${ARG_DEPS})
    return()
  endif()
  add_library(aril_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(aril_${name} PUBLIC aril_flags ${ARG_DEPS} PRIVATE ${ARG_EXTERNAL})
  if(ARIL_FUZZ AND name IN_LIST ARIL_FUZZED)
    target_compile_options(aril_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# aril_test(<folder> SOURCES … [DEPS <folder>…] [EXTERNAL <target>…]): one test binary per folder.
function(aril_test name)
  if(NOT ARIL_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;EXTERNAL" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND aril_)
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE aril_flags ${ARG_DEPS} ${ARG_EXTERNAL}
                        aril_test_paths GTest::gmock GTest::gtest_main)
  set(environment "")
  if(ARIL_SANITIZE STREQUAL thread)
    set(environment TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tools/tsan_suppressions.txt)
  endif()
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 120
                       DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
                       PROPERTIES TIMEOUT 900 ENVIRONMENT "${environment}")
endfunction()

# All benchmark programs: `make test` builds them too, so that they are not broken unnoticed.
add_custom_target(benchmarks)

# aril_bench(<folder> SOURCES … [DEPS <folder>…]): <folder>_bench, which `make bench` runs.
function(aril_bench name)
  if(NOT ARIL_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND aril_)
  add_executable(${name}_bench ${ARG_SOURCES})
  target_link_libraries(${name}_bench PRIVATE aril_flags ${ARG_DEPS} aril_test_paths benchmark::benchmark_main)
  add_dependencies(benchmarks ${name}_bench)
endfunction()

# All fuzz targets.
add_custom_target(fuzz_targets)

# aril_fuzz(<name> [DEPS <folder>…] [EXTERNAL <target>…]): <name>_fuzz from <name>_fuzz.cc, which `make fuzz`
# runs with the seeds of corpus/<name>/ where there are some.
function(aril_fuzz name)
  cmake_parse_arguments(ARG "" "" "DEPS;EXTERNAL" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND aril_)
  add_executable(${name}_fuzz ${name}_fuzz.cc)
  target_link_libraries(${name}_fuzz PRIVATE aril_flags ${ARG_DEPS} ${ARG_EXTERNAL})
  target_compile_options(${name}_fuzz PRIVATE -fsanitize=fuzzer-no-link)
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzz_targets ${name}_fuzz)
endfunction()
