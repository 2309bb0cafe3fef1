# SPDX-License-Identifier: Apache-2.0
# CMake toolchain file: this machine's g++ with the C library of an older system, for wheels that load there.
#
# FASTPROF_SYSROOT (environment): root of that system, for example a debootstrap of Debian 11 with libc6-dev.
#
# Headers and stubs of the C library come from there, so that the linker takes no newer symbol version. The C++ library's
# headers are the compiler's. What they refer to is taken from the older system's libstdc++.so.6, which the target has as
# well, and what that does not export yet (std::to_chars of a double, say) from the compiler's libstdc++.a. One copy of
# the C++ runtime stays in the process, shared with libtorch.
set(_sysroot "$ENV{FASTPROF_SYSROOT}")
if(NOT EXISTS "${_sysroot}/usr/include/features.h")
  message(FATAL_ERROR "FASTPROF_SYSROOT='${_sysroot}' has no C headers: set it to the root of a system with libc6-dev")
endif()
set(CMAKE_CXX_COMPILER g++)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FASTPROF_SYSROOT)

execute_process(COMMAND g++ -dumpversion OUTPUT_VARIABLE _version OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND g++ -print-multiarch OUTPUT_VARIABLE _multiarch OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND g++ -print-file-name=libstdc++.a OUTPUT_VARIABLE _archive OUTPUT_STRIP_TRAILING_WHITESPACE)

set(_folders "/usr/include/c++/${_version}" "/usr/include/${_multiarch}/c++/${_version}"
             "/usr/include/c++/${_version}/backward")
list(TRANSFORM _folders PREPEND "-isystem ")
list(JOIN _folders " " _folders)
set(CMAKE_CXX_FLAGS_INIT "--sysroot=${_sysroot} -nostdinc++ ${_folders}")

set(_libraries "${_sysroot}/usr/lib/${_multiarch}" "${_sysroot}/lib/${_multiarch}")
list(TRANSFORM _libraries PREPEND "-L")
list(JOIN _libraries " " _libraries)
foreach(_kind EXE MODULE SHARED)
  set(CMAKE_${_kind}_LINKER_FLAGS_INIT "-nodefaultlibs ${_libraries}")
endforeach()
# Last on the line, in this order: a symbol comes from the first that has it. --exclude-libs keeps the copies private.
set(CMAKE_CXX_STANDARD_LIBRARIES
  "-l:libstdc++.so.6 -Wl,--exclude-libs,libstdc++.a ${_archive} -lm -lpthread -ldl -l:libgcc_s.so.1 -lgcc -lc")
