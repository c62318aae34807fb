# Everything here is a Debian 12 package; docs/dependencies.md says why each is used.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)

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
