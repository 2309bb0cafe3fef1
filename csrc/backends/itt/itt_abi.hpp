// SPDX-License-Identifier: Apache-2.0
// ITT's binary interface between a program and a collector, declared by us: the list of functions
// that a collector fills in, domains, string handles and ids. Source of the format: the public
// header ittnotify.h (tests/abi compares what it contains) and the documented dispatch of the
// open-source ittapi, version 3.0 of its global.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace itt {

constexpr const char* kCollectorVariable = "INTEL_LIBITTNOTIFY64";
constexpr const char* kCollectorEntry = "__itt_api_init";
constexpr uint32_t kAllGroups = 0xFFFFFFFF;

struct Domain {
  volatile int flags;  // 0: the program skips its calls
  const char* name;
  void* wide_name;
  int extra1;
  void* extra2;  // the collector's
  Domain* next;
};

struct StringHandle {
  const char* text;
  void* wide_text;
  int extra1;
  void* extra2;
  StringHandle* next;
};

struct Id {
  unsigned long long d1, d2, d3;
};
constexpr Id kNoId{0, 0, 0};

// One function of the interface: the collector stores its own into *function.
struct ApiInfo {
  const char* name;  // null ends the list
  void** function;
  void* initial;
  void* none;
  uint32_t group;
};

struct Global {
  unsigned char magic[8];
  unsigned long version_major;
  unsigned long version_minor;
  unsigned long version_build;
  volatile long api_initialized;
  volatile long mutex_initialized;
  volatile long atomic_counter;
  pthread_mutex_t mutex;
  void* library;
  void* error_handler;
  const char** library_path;
  ApiInfo* api_list;
  Global* next;
  void* thread_list;
  Domain* domain_list;
  StringHandle* string_list;
  int state;
  void* counter_list;
  unsigned int ipt_collect_events;
  void* histogram_list;
  void* counter_metadata_list;
};
constexpr unsigned char kMagic[8] = {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30};

// Types of a counter's value and of metadata.
enum class ValueType : int32_t {
  unknown = 0,
  uint64 = 1,
  int64 = 2,
  uint32 = 3,
  int32 = 4,
  uint16 = 5,
  int16 = 6,
  float32 = 7,
  float64 = 8,
};

using ApiInit = void (*)(Global* global, uint32_t groups);

}  // namespace itt
FASTPROF_NAMESPACE_END
