# SPDX-License-Identifier: Apache-2.0
# Answers find_package(fastprof <version>): the same major (and, below 1.0, the same minor) and not older.
foreach(_dir "${CMAKE_CURRENT_LIST_DIR}/../../../include" "${CMAKE_CURRENT_LIST_DIR}/../csrc/include")
  if(EXISTS "${_dir}/fastprof/base/config.hpp")
    file(STRINGS "${_dir}/fastprof/base/config.hpp" _line REGEX "#define FASTPROF_VERSION_STRING ")
    string(REGEX REPLACE ".*\"([^\"]+)\".*" "\\1" PACKAGE_VERSION "${_line}")
    break()
  endif()
endforeach()
unset(_dir)
unset(_line)

set(PACKAGE_VERSION_COMPATIBLE FALSE)
set(PACKAGE_VERSION_EXACT FALSE)
if(NOT DEFINED PACKAGE_VERSION)
  set(PACKAGE_VERSION_UNSUITABLE TRUE)
  return()
endif()

if(PACKAGE_FIND_VERSION_RANGE)
  if(PACKAGE_VERSION VERSION_GREATER_EQUAL PACKAGE_FIND_VERSION_MIN
     AND ((PACKAGE_FIND_VERSION_RANGE_MAX STREQUAL "INCLUDE" AND PACKAGE_VERSION VERSION_LESS_EQUAL PACKAGE_FIND_VERSION_MAX)
          OR (PACKAGE_FIND_VERSION_RANGE_MAX STREQUAL "EXCLUDE" AND PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION_MAX)))
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
  endif()
elseif(NOT PACKAGE_VERSION VERSION_LESS "${PACKAGE_FIND_VERSION}")
  string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" _have "${PACKAGE_VERSION}")
  set(_have_major "${CMAKE_MATCH_1}")
  set(_have_minor "${CMAKE_MATCH_2}")
  if("${PACKAGE_FIND_VERSION}" STREQUAL ""
     OR ("${PACKAGE_FIND_VERSION_MAJOR}" STREQUAL "${_have_major}"
         AND (_have_major GREATER 0 OR PACKAGE_FIND_VERSION_COUNT LESS 2
              OR "${PACKAGE_FIND_VERSION_MINOR}" STREQUAL "${_have_minor}")))
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
  endif()
  if("${PACKAGE_FIND_VERSION}" STREQUAL "${PACKAGE_VERSION}")
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
