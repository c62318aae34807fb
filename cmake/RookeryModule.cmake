# What every target is built with: warnings are errors, and includes are written from src/.
add_library(rookery_options INTERFACE)
target_include_directories(rookery_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(rookery_options INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
if(ROOKERY_SANITIZE)
  target_compile_options(rookery_options INTERFACE -fsanitize=${ROOKERY_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(rookery_options INTERFACE -fno-sanitize=function)  # clang 14 breaks coroutines with it
  endif()
  target_link_options(rookery_options INTERFACE -fsanitize=${ROOKERY_SANITIZE})
endif()
find_program(ROOKERY_MOLD mold)
if(ROOKERY_MOLD)
  target_link_options(rookery_options INTERFACE -fuse-ld=mold)
endif()

# A test that takes longer than this hangs.
set(ROOKERY_TEST_TIMEOUT 300)
if(ROOKERY_SANITIZE)
  set(ROOKERY_TEST_TIMEOUT 900)
endif()

# rookery_module(NAME [TORCH] [PRECOMPILE header] [FOLDERS dir...] [USES lib...] [TEST_USES lib...])
#
# The static library rookery_NAME from the *.cc of this folder, internal/ and FOLDERS; the test program NAME_test from
# *_test.cc; and rookery_NAME_testing from testing/*.cc, for this module's tests and those of others.
# TORCH: the module sees libtorch; it then shares one precompiled header with all others that do. PRECOMPILE: the module
# and its tests have one of their own.
function(rookery_module name)
  cmake_parse_arguments(arg "TORCH" "PRECOMPILE" "FOLDERS;USES;TEST_USES" ${ARGN})
  list(TRANSFORM arg_FOLDERS APPEND "/*.cc")
  file(GLOB sources CONFIGURE_DEPENDS *.cc internal/*.cc ${arg_FOLDERS})
  file(GLOB testing CONFIGURE_DEPENDS testing/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  add_library(rookery_${name} STATIC ${sources})
  target_link_libraries(rookery_${name} PUBLIC rookery_options ${arg_USES})
  if(arg_TORCH)
    target_link_libraries(rookery_${name} PUBLIC rookery_torch)
  endif()
  if(arg_PRECOMPILE)
    target_precompile_headers(rookery_${name} PRIVATE ${arg_PRECOMPILE})
  elseif(arg_TORCH)
    rookery_precompile(rookery_${name})
  endif()

  if(ROOKERY_TESTS AND testing)
    add_library(rookery_${name}_testing STATIC ${testing})
    target_link_libraries(rookery_${name}_testing PUBLIC rookery_${name} GTest::gtest)
    list(APPEND arg_TEST_USES rookery_${name}_testing)
  endif()
  if(ROOKERY_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE rookery_${name} ${arg_TEST_USES} GTest::gtest_main GTest::gmock)
    if(arg_PRECOMPILE)
      target_precompile_headers(${name}_test REUSE_FROM rookery_${name})
    elseif(arg_TORCH)
      rookery_precompile(${name}_test)
    endif()
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${ROOKERY_TEST_TIMEOUT})
  endif()
endfunction()

# libtorch's headers take seconds to parse: the first target compiles them, the others reuse that.
function(rookery_precompile target)
  get_property(owner GLOBAL PROPERTY ROOKERY_PCH_OWNER)
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/torch_pch.h)
    set_property(GLOBAL PROPERTY ROOKERY_PCH_OWNER ${target})
  endif()
endfunction()
