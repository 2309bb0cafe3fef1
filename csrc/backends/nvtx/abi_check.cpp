// SPDX-License-Identifier: Apache-2.0
// Compile-time check of nvtx_abi.hpp. Not part of any library: a test compiles it against NVIDIA's
// headers where they are installed.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCuda.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <cstddef>
#include <type_traits>

#include "backends/nvtx/nvtx_abi.hpp"

namespace ours = fastprof::nvtx;

#define SAME_NUMBER(own, theirs) \
  static_assert(static_cast<long long>(own) == static_cast<long long>(theirs), #theirs)
#define SAME_CORE(name) SAME_NUMBER(ours::core::name, NVTX_CBID_CORE_##name)
#define SAME_CORE2(name) SAME_NUMBER(ours::core2::name, NVTX_CBID_CORE2_##name)
#define SAME_FIELD(own_type, own, type, field)                                       \
  static_assert(offsetof(own_type, own) == offsetof(type, field), #type "." #field); \
  static_assert(sizeof(own_type::own) == sizeof(type::field), #type "." #field)

SAME_NUMBER(ours::ExportTable::callbacks, NVTX_ETID_CALLBACKS);
SAME_NUMBER(ours::ExportTable::version_info, NVTX_ETID_VERSIONINFO);
SAME_NUMBER(ours::Module::core, NVTX_CB_MODULE_CORE);
SAME_NUMBER(ours::Module::cuda, NVTX_CB_MODULE_CUDA);
SAME_NUMBER(ours::Module::opencl, NVTX_CB_MODULE_OPENCL);
SAME_NUMBER(ours::Module::cudart, NVTX_CB_MODULE_CUDART);
SAME_NUMBER(ours::Module::core2, NVTX_CB_MODULE_CORE2);
SAME_NUMBER(ours::Module::sync, NVTX_CB_MODULE_SYNC);
SAME_CORE(MarkEx);
SAME_CORE(MarkA);
SAME_CORE(MarkW);
SAME_CORE(RangeStartEx);
SAME_CORE(RangeStartA);
SAME_CORE(RangeStartW);
SAME_CORE(RangeEnd);
SAME_CORE(RangePushEx);
SAME_CORE(RangePushA);
SAME_CORE(RangePushW);
SAME_CORE(RangePop);
SAME_CORE(NameCategoryA);
SAME_CORE(NameCategoryW);
SAME_CORE(NameOsThreadA);
SAME_CORE(NameOsThreadW);
SAME_NUMBER(ours::core::count, NVTX_CBID_CORE_SIZE);
SAME_CORE2(DomainMarkEx);
SAME_CORE2(DomainRangeStartEx);
SAME_CORE2(DomainRangeEnd);
SAME_CORE2(DomainRangePushEx);
SAME_CORE2(DomainRangePop);
SAME_CORE2(DomainResourceCreate);
SAME_CORE2(DomainResourceDestroy);
SAME_CORE2(DomainNameCategoryA);
SAME_CORE2(DomainNameCategoryW);
SAME_CORE2(DomainRegisterStringA);
SAME_CORE2(DomainRegisterStringW);
SAME_CORE2(DomainCreateA);
SAME_CORE2(DomainCreateW);
SAME_CORE2(DomainDestroy);
SAME_CORE2(Initialize);
SAME_NUMBER(ours::core2::count, NVTX_CBID_CORE2_SIZE);
#define SAME_CUDA(name) SAME_NUMBER(ours::cuda::name, NVTX_CBID_CUDA_##name)
SAME_CUDA(NameCuDeviceA);
SAME_CUDA(NameCuDeviceW);
SAME_CUDA(NameCuContextA);
SAME_CUDA(NameCuContextW);
SAME_CUDA(NameCuStreamA);
SAME_CUDA(NameCuStreamW);
SAME_CUDA(NameCuEventA);
SAME_CUDA(NameCuEventW);
#define SAME_CUDART(name) SAME_NUMBER(ours::cudart::name, NVTX_CBID_CUDART_##name)
SAME_CUDART(NameCudaDeviceA);
SAME_CUDART(NameCudaDeviceW);
SAME_CUDART(NameCudaStreamA);
SAME_CUDART(NameCudaStreamW);
SAME_CUDART(NameCudaEventA);
SAME_CUDART(NameCudaEventW);
SAME_NUMBER(ours::kCudaFunctions, NVTX_CBID_CUDA_SIZE);
SAME_NUMBER(ours::kOpenclFunctions, NVTX_CBID_OPENCL_SIZE);
SAME_NUMBER(ours::kCudartFunctions, NVTX_CBID_CUDART_SIZE);
SAME_NUMBER(ours::kSyncFunctions, NVTX_CBID_SYNC_SIZE);
SAME_NUMBER(ours::kVersion, NVTX_VERSION);
SAME_NUMBER(ours::kThreadNative, NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE);
SAME_NUMBER(ours::kCudaDevice, NVTX_RESOURCE_TYPE_CUDA_DEVICE);
SAME_NUMBER(ours::kCudaContext, NVTX_RESOURCE_TYPE_CUDA_CONTEXT);
SAME_NUMBER(ours::kCudaStream, NVTX_RESOURCE_TYPE_CUDA_STREAM);
SAME_NUMBER(ours::kCudartDevice, NVTX_RESOURCE_TYPE_CUDART_DEVICE);
SAME_NUMBER(ours::kCudartStream, NVTX_RESOURCE_TYPE_CUDART_STREAM);
// Devices and objects are passed as an int and as a pointer.
static_assert(std::is_same_v<CUdevice, int>);
static_assert(std::is_pointer_v<CUcontext> && std::is_pointer_v<CUstream> &&
              std::is_pointer_v<cudaStream_t>);
SAME_NUMBER(ours::ColorType::argb, NVTX_COLOR_ARGB);
SAME_NUMBER(ours::PayloadType::uint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME_NUMBER(ours::PayloadType::int64, NVTX_PAYLOAD_TYPE_INT64);
SAME_NUMBER(ours::PayloadType::float64, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME_NUMBER(ours::PayloadType::uint32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME_NUMBER(ours::PayloadType::int32, NVTX_PAYLOAD_TYPE_INT32);
SAME_NUMBER(ours::PayloadType::float32, NVTX_PAYLOAD_TYPE_FLOAT);
SAME_NUMBER(ours::MessageType::ascii, NVTX_MESSAGE_TYPE_ASCII);
SAME_NUMBER(ours::MessageType::unicode, NVTX_MESSAGE_TYPE_UNICODE);
SAME_NUMBER(ours::MessageType::registered, NVTX_MESSAGE_TYPE_REGISTERED);

static_assert(sizeof(ours::CallbacksTable) == sizeof(NvtxExportTableCallbacks));
SAME_FIELD(ours::CallbacksTable, get_module_function_table, NvtxExportTableCallbacks,
           GetModuleFunctionTable);
static_assert(sizeof(ours::VersionInfoTable) == sizeof(NvtxExportTableVersionInfo));
SAME_FIELD(ours::VersionInfoTable, version, NvtxExportTableVersionInfo, version);
SAME_FIELD(ours::VersionInfoTable, set_injection_version, NvtxExportTableVersionInfo,
           SetInjectionNvtxVersion);

static_assert(sizeof(ours::EventAttributes) == sizeof(nvtxEventAttributes_t));
SAME_FIELD(ours::EventAttributes, version, nvtxEventAttributes_t, version);
SAME_FIELD(ours::EventAttributes, size, nvtxEventAttributes_t, size);
SAME_FIELD(ours::EventAttributes, category, nvtxEventAttributes_t, category);
SAME_FIELD(ours::EventAttributes, color_type, nvtxEventAttributes_t, colorType);
SAME_FIELD(ours::EventAttributes, color, nvtxEventAttributes_t, color);
SAME_FIELD(ours::EventAttributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME_FIELD(ours::EventAttributes, payload, nvtxEventAttributes_t, payload);
SAME_FIELD(ours::EventAttributes, message_type, nvtxEventAttributes_t, messageType);
SAME_FIELD(ours::EventAttributes, message, nvtxEventAttributes_t, message);
static_assert(sizeof(ours::ResourceAttributes) == sizeof(nvtxResourceAttributes_t));
SAME_FIELD(ours::ResourceAttributes, type, nvtxResourceAttributes_t, identifierType);
SAME_FIELD(ours::ResourceAttributes, identifier, nvtxResourceAttributes_t, identifier);
SAME_FIELD(ours::ResourceAttributes, message_type, nvtxResourceAttributes_t, messageType);
SAME_FIELD(ours::ResourceAttributes, message, nvtxResourceAttributes_t, message);
static_assert(std::is_same_v<ours::RangeId, nvtxRangeId_t>);

int main() {}
