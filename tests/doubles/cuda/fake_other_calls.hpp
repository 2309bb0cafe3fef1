// SPDX-License-Identifier: Apache-2.0
// The rest of fake_cuda.cpp, which includes this at its end: functions of libcupti that are not the
// activity interface's core. The injection library translates handles by them; the others are
// called by other clients, so that PyTorch's libkineto runs on the double
// (benchmarks/peers/kineto_launches.cpp).
#pragma once

// Handles of streams are (device + 1) << 24 | number, and of contexts device + 1; null is stream 7
// of device 0, and its context.
EXPORT CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t, uint32_t* id) {
  MAY_FAIL();
  const auto handle = reinterpret_cast<uintptr_t>(stream);
  const auto device = reinterpret_cast<uintptr_t>(context);
  if (handle != 0 && device != 0 && handle >> 24 != device) return CUPTI_ERROR_INVALID_STREAM;
  *id = handle == 0 ? 7 : static_cast<uint32_t>(handle & 0xFFFFFF);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetContextId(CUcontext context, uint32_t* id) {
  MAY_FAIL();
  *id = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(context));
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t* id) {
  MAY_FAIL();
  const auto number = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(context));
  *id = number == 0 ? 0 : number - 1;
  return CUPTI_SUCCESS;
}

// The ids of a thread lie on a stack for each kind.
EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                          uint64_t id) {
  MAY_FAIL();
  if (static_cast<size_t>(kind) >= kExternalKinds) return CUPTI_ERROR_INVALID_PARAMETER;
  t_external[kind].push_back(id);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                         uint64_t* last) {
  MAY_FAIL();
  if (static_cast<size_t>(kind) >= kExternalKinds) return CUPTI_ERROR_INVALID_PARAMETER;
  if (t_external[kind].empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = t_external[kind].back();
  t_external[kind].pop_back();
  return CUPTI_SUCCESS;
}

// Settings without an effect on the double.
EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) {
  MAY_FAIL();
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t on) {
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  l.stamps_events = on != 0;
  return CUPTI_SUCCESS;
}
// The double calls no client back.
EXPORT CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain,
                                       CUpti_CallbackId) {
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) {
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiFinalize() {
  return CUPTI_SUCCESS;
}
