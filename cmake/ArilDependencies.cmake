# Third-party libraries. Every one is a Debian package, listed once in tools/deps.sh; nothing is
# downloaded at configure time.

if(ARIL_STATIC_DEPS)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
  set(Boost_USE_STATIC_LIBS ON)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(spdlog REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

set(ARIL_SPDLOG spdlog::spdlog)
if(ARIL_STATIC_DEPS)
  # Debian has Abseil's archives, but its CMake package names the shared libraries.
  get_property(absl_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  list(FILTER absl_targets INCLUDE REGEX "^absl::")
  foreach(target ${absl_targets})
    get_target_property(location ${target} IMPORTED_LOCATION_NONE)
    string(REGEX REPLACE "\\.so.*" ".a" archive "${location}")
    if(EXISTS "${archive}")
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_NONE ${archive})
    endif()
  endforeach()
  # spdlog and fmt have no archives there; their headers do without.
  set(ARIL_SPDLOG spdlog::spdlog_header_only)
  set_target_properties(spdlog::spdlog_header_only PROPERTIES
    INTERFACE_LINK_LIBRARIES "Threads::Threads;fmt::fmt-header-only")
endif()

find_package(OpenSSL 3.0 REQUIRED)
if(ARIL_SERVER)
  find_package(Boost 1.81 REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(prometheus-cpp REQUIRED)
endif()
if(ARIL_SERVER OR ARIL_FUZZ)
  find_package(CURL 7.86 REQUIRED)
  find_package(SQLite3 REQUIRED)
endif()

if(ARIL_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
if(ARIL_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

# CMake finds nvcc by itself and never needs it.
include(CheckLanguage)
check_language(CUDA)
