# The toolchain of preset `debug`: Clang compiles with both sanitizers in little more than half the time that GCC
# takes, and has libFuzzer. Clang 14 cannot compile the gateway's coroutines with both; 16 can.
find_program(ARIL_CLANG NAMES clang++-16 clang++-17 clang++-18 clang++-19 clang++-20 clang++)
if(NOT ARIL_CLANG)
  message(FATAL_ERROR "Debug checks are built with Clang 16 or newer, which was not found: tools/deps.sh installs it, "
                      "or name one with -DARIL_CLANG=PATH")
endif()
set(CMAKE_CXX_COMPILER ${ARIL_CLANG})
