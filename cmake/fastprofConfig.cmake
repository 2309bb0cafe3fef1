# SPDX-License-Identifier: Apache-2.0
# find_package(fastprof) defines
#   fastprof::fastprof     Session compiled once a project, as a static library with the project's options
#   fastprof::separate     Session compiled once a target, with the target's own options
#   fastprof::header_only  Session compiled into each file that uses it
# One hand-written file serves every place it may lie in: an installed prefix (share/cmake/fastprof), the Python package
# (the same layout inside it), and the source tree (cmake/).
if(TARGET fastprof::fastprof)
  return()
endif()

get_filename_component(_fastprof_include "${CMAKE_CURRENT_LIST_DIR}/../../../include" ABSOLUTE)
if(NOT EXISTS "${_fastprof_include}/fastprof/base/config.hpp")
  get_filename_component(_fastprof_include "${CMAKE_CURRENT_LIST_DIR}/../csrc/include" ABSOLUTE)
endif()
if(NOT EXISTS "${_fastprof_include}/fastprof/base/config.hpp")
  set(fastprof_FOUND FALSE)
  set(fastprof_NOT_FOUND_MESSAGE
      "The fastprof headers are not beside ${CMAKE_CURRENT_LIST_DIR}: install fastprof again.")
  return()
endif()

include(CMakeFindDependencyMacro)
find_dependency(Threads)

# GLOBAL, since the library of compiled definitions is visible to the whole project, too.
add_library(fastprof::header_only INTERFACE IMPORTED GLOBAL)
set_target_properties(fastprof::header_only PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${_fastprof_include}"
  INTERFACE_COMPILE_FEATURES cxx_std_17
  INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS}")

# Session and the writers, compiled once by the project that asks for them, with its options of this point.
add_library(fastprof_definitions STATIC EXCLUDE_FROM_ALL "${_fastprof_include}/fastprof/definitions.cpp")
set_target_properties(fastprof_definitions PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_definitions(fastprof_definitions PUBLIC FASTPROF_SEPARATE)
target_link_libraries(fastprof_definitions PUBLIC fastprof::header_only)

# Imported, so that projects can export their own targets that link it.
add_library(fastprof::fastprof INTERFACE IMPORTED GLOBAL)
set_target_properties(fastprof::fastprof PROPERTIES INTERFACE_LINK_LIBRARIES fastprof_definitions)

add_library(fastprof::separate INTERFACE IMPORTED GLOBAL)
set_target_properties(fastprof::separate PROPERTIES
  INTERFACE_LINK_LIBRARIES fastprof::header_only
  INTERFACE_COMPILE_DEFINITIONS FASTPROF_SEPARATE
  INTERFACE_SOURCES "${_fastprof_include}/fastprof/definitions.cpp")
# It must be the first to include the headers. Targets of other folders than this one set these properties themselves.
set_source_files_properties("${_fastprof_include}/fastprof/definitions.cpp" PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)

# On macOS: the Metal profiler for programs with Metal code of their own (docs/metal.md). The program compiles its Objective-C++
# sources, so its project must enable the language OBJCXX.
if(APPLE)
  set(_fastprof_sources "${_fastprof_include}/fastprof/sources")
  if(NOT EXISTS "${_fastprof_sources}/backends/metal/metal_platform.mm")
    get_filename_component(_fastprof_sources "${CMAKE_CURRENT_LIST_DIR}/../csrc" ABSOLUTE)
  endif()
  set(_fastprof_metal "${_fastprof_sources}/backends/metal")
  add_library(fastprof::metal INTERFACE IMPORTED)
  set_target_properties(fastprof::metal PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_fastprof_sources}"
    INTERFACE_SOURCES "${_fastprof_metal}/metal_platform.mm;${_fastprof_metal}/commit_observation.mm;${_fastprof_metal}/torch_stream.cpp"
    INTERFACE_LINK_LIBRARIES "fastprof::header_only;-framework Foundation;-framework Metal")
  unset(_fastprof_sources)
  unset(_fastprof_metal)
endif()
set(fastprof_INCLUDE_DIRS "${_fastprof_include}")
unset(_fastprof_include)
