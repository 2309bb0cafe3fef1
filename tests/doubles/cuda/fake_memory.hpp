// SPDX-License-Identifier: Apache-2.0
// The rest of fake_cuda.cpp, which includes this at its end: what programs do with memory, and with
// events that streams wait for.
#pragma once

// operation: 1 allocation, 2 release. ordered: by a stream, from a pool. Returns the correlation.
EXPORT uint32_t fake_memory(uint32_t operation, uint32_t memory_kind, uint64_t address,
                            uint64_t bytes, uint32_t device, uint32_t stream, int ordered) {
  Library& l = library();
  uint64_t end = 0;
  FAKE_MEMORY record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  record.memoryOperationType = static_cast<CUpti_ActivityMemoryOperationType>(operation);
  record.memoryKind = static_cast<CUpti_ActivityMemoryKind>(memory_kind);
  record.correlationId =
      api_call(l, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, end);
  record.address = address;
  record.bytes = bytes;
  record.timestamp = end;
  record.deviceId = device;
  record.contextId = device + 1;
  record.streamId = ordered != 0 ? stream : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  record.isAsync = ordered != 0 ? 1 : 0;
  if (ordered != 0) {
    record.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
    record.memoryPoolConfig.address = 0x9000;
  }
  append(l, record);
  return record.correlationId;
}
// operation: 1 created, 2 destroyed, 3 trimmed.
EXPORT void fake_memory_pool(uint32_t operation, uint64_t size, uint32_t device) {
  Library& l = library();
  CUpti_ActivityMemoryPool2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL;
  record.memoryPoolOperationType = static_cast<CUpti_ActivityMemoryPoolOperationType>(operation);
  record.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
  record.deviceId = device;
  record.address = 0x9000;
  record.size = size;
  record.timestamp = now(l);
  append(l, record);
}
// Pages of managed memory move (counter 1: to the device, 2: from it), or are missed (4).
EXPORT void fake_unified_memory(uint32_t counter, uint64_t value, uint32_t device) {
  Library& l = library();
  {
    std::lock_guard<std::mutex> hold(l.lock);
    if (!l.counts_unified_memory) return;
  }
  FAKE_UNIFIED record{};
  record.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
  record.counterKind = static_cast<CUpti_ActivityUnifiedMemoryCounterKind>(counter);
  record.value = value;
  record.start = now(l);
  record.end = now(l);
  record.address = 0x700000;
  record.srcId = counter == 1 ? 99 : device;
  record.dstId = counter == 1 ? device : 99;
  record.streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  append(l, record);
}
// Pages of an expandable segment are made and mapped, by the driver's interface.
EXPORT void fake_map_memory() {
  uint64_t end = 0;
  for (const uint32_t cbid :
       {CUPTI_DRIVER_TRACE_CBID_cuMemCreate, CUPTI_DRIVER_TRACE_CBID_cuMemMap})
    api_call(library(), CUPTI_ACTIVITY_KIND_DRIVER, cbid, end);
}
// cudaEventRecord(); returns its correlation.
EXPORT uint32_t fake_record_event(uint32_t event, uint32_t device, uint32_t stream) {
  Library& l = library();
  uint64_t end = 0;
  FAKE_EVENT record{};
  record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  record.correlationId =
      api_call(l, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020, end);
  record.contextId = device + 1;
  record.streamId = stream;
  record.eventId = event;
#if CUPTI_API_VERSION >= 28
  record.deviceId = device;
  if (l.stamps_events) record.deviceTimestamp = now(l);
#endif
  append(l, record);
  return record.correlationId;
}
// cudaStreamWaitEvent(): the stream waits.
EXPORT void fake_wait_event(uint32_t event, uint32_t device, uint32_t stream) {
  Library& l = library();
  uint64_t end = 0;
  CUpti_ActivitySynchronization record{};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  record.start = now(l);
  record.correlationId = api_call(l, CUPTI_ACTIVITY_KIND_RUNTIME,
                                  CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020, end);
  record.end = now(l);
  record.contextId = device + 1;
  record.streamId = stream;
  record.cudaEventId = event;
  append(l, record);
}
