// SPDX-License-Identifier: Apache-2.0
// A library that names objects of CUDA by the genuine NVTX headers, for a program that has the
// double of libcupti. Handles are those of the double: see fake_other_calls.hpp.
#include <nvtx3/nvToolsExtCuda.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <nvtx3/nvToolsExtSync.h>

#include <cstdint>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <class Handle>
Handle handle(uint64_t number) {
  return reinterpret_cast<Handle>(number);
}
uint64_t stream(uint64_t device, uint64_t number) {
  return (device + 1) << 24 | number;
}

void name_resource(nvtxDomainHandle_t domain, int32_t type, uint64_t object, const char* name) {
  nvtxResourceAttributes_t attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_RESOURCE_ATTRIB_STRUCT_SIZE;
  attributes.identifierType = type;
  attributes.identifier.ullValue = object;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainResourceCreate(domain, &attributes);
}

}  // namespace

EXPORT void name_stream(uint32_t device, uint32_t number, const char* name) {
  nvtxNameCudaStreamA(handle<cudaStream_t>(stream(device, number)), name);
}

// Each call once: of the runtime, of the driver, of resources.
EXPORT void name_objects() {
  nvtxNameCudaStreamA(handle<cudaStream_t>(stream(0, 9)), "renamed below");
  nvtxNameCudaStreamA(handle<cudaStream_t>(stream(0, 9)), "decode");
  nvtxNameCudaStreamW(handle<cudaStream_t>(stream(0, 10)), L"caf\u00e9");
  nvtxNameCuStreamA(handle<CUstream>(stream(0, 11)), "by the driver");
  nvtxNameCuStreamW(handle<CUstream>(stream(0, 12)), L"by the driver, wide");
  nvtxNameCudaDeviceA(1, "left card");
  nvtxNameCudaDeviceW(2, L"wide card");
  nvtxNameCuDeviceA(3, "driver's card");
  nvtxNameCuDeviceW(4, L"driver's wide card");
  nvtxNameCuContextA(handle<CUcontext>(2), "trainer");
  nvtxNameCuContextW(handle<CUcontext>(6), L"loader");
  nvtxDomainHandle_t domain = nvtxDomainCreateA("objects");
  name_resource(domain, NVTX_RESOURCE_TYPE_CUDART_STREAM, stream(0, 13), "a resource");
  name_resource(domain, NVTX_RESOURCE_TYPE_CUDA_STREAM, stream(0, 14), "the driver's resource");
  name_resource(domain, NVTX_RESOURCE_TYPE_CUDART_DEVICE, 6, "resource card");
  // What has no row that it could name does nothing.
  nvtxNameCudaEventA(handle<cudaEvent_t>(5), "event");
  nvtxNameCuEventW(handle<CUevent>(5), L"event");
  name_resource(domain, NVTX_RESOURCE_TYPE_CUDA_EVENT, 5, "event");
  nvtxSyncUserAttributes_t lock;
  std::memset(&lock, 0, sizeof lock);
  lock.version = NVTX_VERSION;
  lock.size = NVTX_SYNCUSER_ATTRIB_STRUCT_SIZE;
  nvtxSyncUser_t user = nvtxDomainSyncUserCreate(domain, &lock);
  nvtxDomainSyncUserAcquireStart(user);
  nvtxDomainSyncUserAcquireSuccess(user);
  nvtxDomainSyncUserReleasing(user);
  nvtxDomainSyncUserDestroy(user);
}
