// SPDX-License-Identifier: Apache-2.0
// NVTX's binary interface between a program and a tool, declared by us: numbers, structs and
// function types of NVTX version 3. tests/abi compares it with NVIDIA's headers. Source of the
// format: the public headers nvToolsExt.h and nvtxDetail/nvtxTypes.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {

constexpr uint32_t kVersion = 3;
constexpr int kSuccess = 1;  // result of a tool's entry point; 0: it refuses to attach
constexpr const char* kInjectionVariable = "NVTX_INJECTION64_PATH";
constexpr const char* kInjectionEntry = "InitializeInjectionNvtx2";

// Tables that the program's side exports to the tool.
enum class ExportTable : uint32_t { callbacks = 1, version_info = 3 };

// Modules of functions that a tool may replace, and the functions of each.
enum class Module : int32_t { core = 1, cuda = 2, opencl = 3, cudart = 4, core2 = 5, sync = 6 };
namespace core {
enum Id : uint32_t {
  MarkEx = 1,
  MarkA = 2,
  MarkW = 3,
  RangeStartEx = 4,
  RangeStartA = 5,
  RangeStartW = 6,
  RangeEnd = 7,
  RangePushEx = 8,
  RangePushA = 9,
  RangePushW = 10,
  RangePop = 11,
  NameCategoryA = 12,
  NameCategoryW = 13,
  NameOsThreadA = 14,
  NameOsThreadW = 15,
  count = 16,
};
}  // namespace core
namespace core2 {
enum Id : uint32_t {
  DomainMarkEx = 1,
  DomainRangeStartEx = 2,
  DomainRangeEnd = 3,
  DomainRangePushEx = 4,
  DomainRangePop = 5,
  DomainResourceCreate = 6,
  DomainResourceDestroy = 7,
  DomainNameCategoryA = 8,
  DomainNameCategoryW = 9,
  DomainRegisterStringA = 10,
  DomainRegisterStringW = 11,
  DomainCreateA = 12,
  DomainCreateW = 13,
  DomainDestroy = 14,
  Initialize = 15,
  count = 16,
};
}  // namespace core2
namespace cuda {
enum Id : uint32_t {
  NameCuDeviceA = 1,
  NameCuDeviceW = 2,
  NameCuContextA = 3,
  NameCuContextW = 4,
  NameCuStreamA = 5,
  NameCuStreamW = 6,
  NameCuEventA = 7,
  NameCuEventW = 8,
};
}  // namespace cuda
namespace cudart {
enum Id : uint32_t {
  NameCudaDeviceA = 1,
  NameCudaDeviceW = 2,
  NameCudaStreamA = 3,
  NameCudaStreamW = 4,
  NameCudaEventA = 5,
  NameCudaEventW = 6,
};
}  // namespace cudart
constexpr uint32_t kCudaFunctions = 9;
constexpr uint32_t kOpenclFunctions = 15;
constexpr uint32_t kCudartFunctions = 7;
constexpr uint32_t kSyncFunctions = 7;

using FunctionPointer = void (*)();
using FunctionTable = FunctionPointer**;  // [count], indexed by the numbers above; [0] is null

struct CallbacksTable {
  size_t struct_size;
  int (*get_module_function_table)(Module module, FunctionTable* table, unsigned int* count);
};
struct VersionInfoTable {
  size_t struct_size;
  uint32_t version;
  uint32_t reserved;
  void (*set_injection_version)(uint32_t version);
};
using GetExportTable = const void* (*)(ExportTable table);
using InitializeInjection = int (*)(GetExportTable get_export_table);

enum class ColorType : int32_t { unknown = 0, argb = 1 };
enum class PayloadType : int32_t {
  unknown = 0,
  uint64 = 1,
  int64 = 2,
  float64 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
};
enum class MessageType : int32_t { unknown = 0, ascii = 1, unicode = 2, registered = 3 };

union Payload {
  uint64_t uint64;
  int64_t int64;
  double float64;
  uint32_t uint32;
  int32_t int32;
  float float32;
};
union Message {
  const char* ascii;
  const wchar_t* unicode;
  const void* registered;
};

struct EventAttributes {
  uint16_t version;
  uint16_t size;  // size of the program's version of the struct
  uint32_t category;
  ColorType color_type;
  uint32_t color;
  PayloadType payload_type;
  int32_t reserved;
  Payload payload;
  MessageType message_type;
  Message message;
};

// ResourceAttributes::type, of what is shown: a kernel's thread id; objects of CUDA's driver and of
// its runtime.
constexpr int32_t kThreadNative = 0x10003;
constexpr int32_t kCudaDevice = 0x40001, kCudaContext = 0x40002, kCudaStream = 0x40003;
constexpr int32_t kCudartDevice = 0x50000, kCudartStream = 0x50001;

struct ResourceAttributes {
  uint16_t version;
  uint16_t size;
  int32_t type;
  union {
    const void* pointer;
    uint64_t number;
  } identifier;
  MessageType message_type;
  Message message;
};

using DomainHandle = void*;
using TextHandle = const void*;
using ResourceHandle = void*;
using RangeId = uint64_t;

}  // namespace nvtx
FASTPROF_NAMESPACE_END
