// SPDX-License-Identifier: Apache-2.0
// Compiler and platform macros, version numbers, and the macros that open and close the namespace.
#pragma once

#include <cstddef>
#include <cstdint>

#define FASTPROF_VERSION_MAJOR 0
#define FASTPROF_VERSION_MINOR 1
#define FASTPROF_VERSION_PATCH 0
#define FASTPROF_VERSION_STRING "0.1.0"

// Version of the ABI that annotated libraries of one process share; recorder/state/abi_minor.hpp
// says what a minor may add. Only tests that mix versions override it.
#ifndef FASTPROF_ABI_MAJOR
#define FASTPROF_ABI_MAJOR 2
#endif
#ifndef FASTPROF_ABI_MINOR
#define FASTPROF_ABI_MINOR 0
#endif

#if !defined(__linux__) && !defined(__APPLE__)
#error \
    "fastprof records on Linux and macOS (x86-64 or aarch64). Define FASTPROF_DISABLE and include only fastprof/fastprof.hpp to compile the macros out."
#endif
// Which forms of fastprof/platform are compiled: Darwin's on macOS, and on Linux in tests that
// define FASTPROF_DARWIN_DOUBLES, which have doubles of Darwin's calls.
#if defined(__APPLE__) || defined(FASTPROF_DARWIN_DOUBLES)
#define FASTPROF_DARWIN 1
#else
#define FASTPROF_DARWIN 0
#endif
#if !defined(__x86_64__) && !defined(__aarch64__)
#error "fastprof supports x86-64 and aarch64"
#endif

#define FASTPROF_LIKELY(x) __builtin_expect(!!(x), 1)
#define FASTPROF_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FASTPROF_ALWAYS_INLINE inline __attribute__((always_inline))
#define FASTPROF_NOINLINE __attribute__((noinline))
#define FASTPROF_COLD __attribute__((noinline, cold))
// Places a function among other hot ones: for code that runs now and then amid a program's own
// code.
#define FASTPROF_HOT __attribute__((hot))
#define FASTPROF_HIDDEN __attribute__((visibility("hidden")))
// For classes that users derive from: g++ warns about a class that is more visible than its base.
// Only their vtables and type infos may be exported; their members are hidden one by one.
#define FASTPROF_VISIBLE __attribute__((visibility("default")))
// For the macros' lambdas in a user's inline functions, which clang exports at -O0. g++ keeps them
// local and warns about the attribute.
#if defined(__clang__)
#define FASTPROF_HIDDEN_LAMBDA FASTPROF_HIDDEN
#else
#define FASTPROF_HIDDEN_LAMBDA
#endif

// Separate compilation, for programs that include Session in several source files:
// FASTPROF_SEPARATE is defined for all files of a program, Session and the writers are declared
// only, and definitions.cpp, compiled once, defines them. Without it they are inline functions.
#if defined(FASTPROF_SEPARATE) && !defined(FASTPROF_DEFINITIONS)
#define FASTPROF_DECLARED_ONLY 1
#else
#define FASTPROF_DECLARED_ONLY 0
#endif
#if defined(FASTPROF_DEFINITIONS)
#define FASTPROF_OUTLINE
#else
#define FASTPROF_OUTLINE inline
#endif

#define FASTPROF_STRING_(x) #x
#define FASTPROF_STRING(x) FASTPROF_STRING_(x)
#define FASTPROF_CONCAT_(a, b) a##b
#define FASTPROF_CONCAT(a, b) FASTPROF_CONCAT_(a, b)

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define FASTPROF_EXCEPTIONS 1
#else
#define FASTPROF_EXCEPTIONS 0
#endif
#if defined(__cpp_rtti) || defined(__GXX_RTTI)
#define FASTPROF_RTTI 1
#else
#define FASTPROF_RTTI 0
#endif

#if defined(__SANITIZE_THREAD__)
#define FASTPROF_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FASTPROF_TSAN 1
#endif
#endif
#ifndef FASTPROF_TSAN
#define FASTPROF_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define FASTPROF_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FASTPROF_ASAN 1
#endif
#endif
#ifndef FASTPROF_ASAN
#define FASTPROF_ASAN 0
#endif

__extension__ typedef unsigned __int128 fastprof_uint128;

// All our declarations are hidden: default-visible inline variables would become STB_GNU_UNIQUE,
// merge different header versions, and block unloading. Both compilers apply a namespace's
// visibility to its contents. The inline namespace contains the exact version (a test keeps it
// equal to the macros), because libstdc++ always exports its templates instantiated with our types
// (std::vector<SummaryRow>), and those of libraries with different headers must not merge.
#define FASTPROF_NAMESPACE_BEGIN \
  namespace fastprof {           \
  inline namespace v0_1_0 __attribute__((visibility("hidden"))) {
#define FASTPROF_NAMESPACE_END \
  }                            \
  }
