# Everything here is a Debian 12 package; docs/dependencies.md says why each is used.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(OpenSSL REQUIRED)
find_package(Protobuf REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)

# Headers only; compiled once, in base (asio.cc), which saves every other file seconds.
find_path(BOOST_INCLUDE_DIR boost/asio/awaitable.hpp REQUIRED)
add_library(rookery_asio INTERFACE)
target_include_directories(rookery_asio SYSTEM INTERFACE ${BOOST_INCLUDE_DIR})
target_compile_definitions(rookery_asio INTERFACE BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)
if(ROOKERY_SANITIZE MATCHES "thread")
  target_compile_definitions(rookery_asio INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)  # it does not know fences
endif()
target_compile_options(rookery_asio INTERFACE -Wno-mismatched-new-delete)  # g++ 12 is wrong about coroutine frames
target_link_libraries(rookery_asio INTERFACE Threads::Threads)

if(ROOKERY_TORCH)
  # The libraries by name: Debian's TorchConfig.cmake asks for CUDA and protobuf development files that nothing here uses.
  find_path(TORCH_INCLUDE_DIR ATen/ATen.h REQUIRED)
  find_library(TORCH_LIBRARY torch REQUIRED)
  find_library(TORCH_CPU_LIBRARY torch_cpu REQUIRED)
  find_library(C10_LIBRARY c10 REQUIRED)
  add_library(rookery_torch INTERFACE)
  target_include_directories(rookery_torch SYSTEM INTERFACE
    ${TORCH_INCLUDE_DIR} ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
  target_link_libraries(rookery_torch INTERFACE
    ${TORCH_LIBRARY} ${TORCH_CPU_LIBRARY} ${C10_LIBRARY} OpenMP::OpenMP_CXX)

  pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
  find_package(CLI11 REQUIRED)
endif()

# Header only, and used in one file; compiled once.
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)

if(ROOKERY_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
