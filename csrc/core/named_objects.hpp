// SPDX-License-Identifier: Apache-2.0
// Names that a program gives to objects of CUDA through NVTX: how the injection library, which
// receives them, tells them to the backends, which show them. The two are libraries of their own
// and may be of different releases, so this is a C interface that only grows at its end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {

// Kinds of objects; numbers of the C interface, never changed.
enum class ObjectKind : uint32_t { device = 1, context = 2, stream = 3 };

// A name, as the injection library hands it out. `size`: of the struct that it knows.
struct NamedObject {
  uint32_t size;
  uint32_t kind;       // an ObjectKind, or one that the reader does not know
  int32_t device;      // CUDA's number of the device that the object is on; -1: unknown
  uint32_t known;      // whether `number` is known
  int64_t number;      // CUPTI's id of a context or stream, or the device
  const void* handle;  // CUcontext or CUstream when it was named; may be gone. Never dereferenced
  const char* name;    // UTF-8
};

using EachNamedObject = void (*)(void* user, const NamedObject* object);

// Type of the function fastprof_named_objects(), which the injection library exports: calls `each`
// for each name while it holds a lock; returns how many names it had no room for.
using NamedObjectsFunction = size_t (*)(EachNamedObject each, void* user);
constexpr const char* kNamedObjectsFunction = "fastprof_named_objects";

// Where NVTX looks for its tool.
constexpr const char* kNvtxVariable = "NVTX_INJECTION64_PATH";

// Where libcupti is looked for: the environment's path, or else these.
constexpr const char* kCuptiVariable = "FASTPROF_CUPTI_LIBRARY";
constexpr const char* kCuptiSonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
                                         "libcupti.so"};

}  // namespace devices
FASTPROF_NAMESPACE_END
