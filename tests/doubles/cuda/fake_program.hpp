// SPDX-License-Identifier: Apache-2.0
// The program's part of fake_cuda.cpp, which includes this: fake_launch() and the others do what
// the runtime's functions would.
#pragma once

namespace {
FAKE_KERNEL kernel_of(const char* name, uint32_t device, uint32_t stream, uint32_t correlation) {
  FAKE_KERNEL record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.deviceId = device;
  record.contextId = device + 1;
  record.streamId = stream;
  record.correlationId = correlation;
  record.name = own_name(name);
  record.gridX = 64;
  record.gridY = record.gridZ = 1;
  record.blockX = 256;
  record.blockY = record.blockZ = 1;
  record.registersPerThread = 32;
  record.staticSharedMemory = 1024;
  record.dynamicSharedMemory = 512;
  record.channelID = 4;
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
#if CUPTI_API_VERSION >= 130100
  record.priority = -1;
#endif
  return record;
}
// Runs work on its stream: fills in when.
template <class Record>
void run(Library& l, Record& record, uint64_t submitted, uint64_t time) {
  uint64_t end = 0;
  record.start = work_on(l, record.deviceId, record.streamId, submitted, time, end);
  record.end = end;
  if (l.stale_stamps > 0) {
    --l.stale_stamps;
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    record.start = static_cast<uint64_t>(t.tv_sec) * 1000000000u;
    record.end = record.start + time;
  }
  append(l, record);
}
uint32_t launch(CUpti_ActivityKind kind, uint32_t cbid, const char* name, uint32_t device,
                uint32_t stream, uint64_t time) {
  Library& l = library();
  uint64_t submitted = 0;
  const uint32_t correlation = api_call(l, kind, cbid, submitted);
  FAKE_KERNEL record = kernel_of(name, device, stream, correlation);
  run(l, record, submitted, time);
  return correlation;
}
// What all copies and fills have.
template <class Record>
void describe(Record& record, uint64_t bytes, uint32_t device, uint32_t stream,
              uint32_t correlation) {
  record.bytes = bytes;
  record.deviceId = device;
  record.contextId = device + 1;
  record.streamId = stream;
  record.correlationId = correlation;
  record.channelID = 5;
  record.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
}
}  // namespace

// Launches a kernel that takes `time` units of the clock; returns its correlation. name: static.
EXPORT uint32_t fake_launch(const char* name, uint32_t device, uint32_t stream, uint64_t time) {
  return launch(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, name,
                device, stream, time);
}
// Instantiates the graph that fake_graph_launch() launches.
EXPORT void fake_graph_capture() {
  library().captured_whole = library().enabled.count(CUPTI_ACTIVITY_KIND_GRAPH_TRACE) != 0;
}
// One launch of `count` kernels; returns their correlation. A graph that is traced as a whole has
// one record, and crashes if it was not when it was instantiated, as with CUPTI 13.0 on an H200.
EXPORT uint32_t fake_graph_launch(const char* name, uint32_t device, uint32_t stream, uint64_t time,
                                  uint32_t count) {
  Library& l = library();
  uint64_t submitted = 0;
  const uint32_t correlation = api_call(l, CUPTI_ACTIVITY_KIND_RUNTIME,
                                        CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, submitted);
  if (l.enabled.count(CUPTI_ACTIVITY_KIND_GRAPH_TRACE) != 0) {
    if (!l.captured_whole) std::abort();
    FAKE_GRAPH record{};
    record.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
    record.correlationId = correlation;
    record.deviceId = device;
    record.contextId = device + 1;
    record.streamId = stream;
    record.graphId = 5;
    run(l, record, submitted, time * count);
    return correlation;
  }
  for (uint32_t i = 0; i < count; ++i) {
    FAKE_KERNEL record = kernel_of(name, device, stream, correlation);
    record.graphId = 5;
    record.graphNodeId = 100 + i;
    run(l, record, submitted, time);
  }
  return correlation;
}
// A launch of a graph that is one fill.
EXPORT uint32_t fake_graph_memset(uint64_t bytes, uint32_t device, uint32_t stream, uint64_t time) {
  Library& l = library();
  uint64_t submitted = 0;
  const uint32_t correlation = api_call(l, CUPTI_ACTIVITY_KIND_RUNTIME,
                                        CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, submitted);
  FAKE_MEMSET record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  describe(record, bytes, device, stream, correlation);
  record.graphId = 6;
  record.graphNodeId = 200;
  run(l, record, submitted, time);
  return correlation;
}
EXPORT uint32_t fake_memcpy(uint8_t copy_kind, uint8_t from, uint8_t to, uint64_t bytes,
                            uint32_t device, uint32_t stream, uint64_t time) {
  Library& l = library();
  uint64_t submitted = 0;
  const uint32_t correlation = api_call(l, CUPTI_ACTIVITY_KIND_RUNTIME,
                                        CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, submitted);
  const auto fill = [&](auto& record) {
    record.copyKind = copy_kind;
    record.srcKind = from;
    record.dstKind = to;
    describe(record, bytes, device, stream, correlation);
    run(l, record, submitted, time);
  };
  if (copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP) {
    FAKE_PEER record{};
    record.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
    record.srcDeviceId = device;
    record.srcContextId = device + 1;
    record.dstDeviceId = device + 1;
    record.dstContextId = device + 2;
    fill(record);
  } else {
    FAKE_MEMCPY record{};
    record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    fill(record);
  }
  return correlation;
}
EXPORT uint32_t fake_memset(uint64_t bytes, uint32_t device, uint32_t stream, uint64_t time) {
  Library& l = library();
  uint64_t submitted = 0;
  const uint32_t correlation = api_call(l, CUPTI_ACTIVITY_KIND_RUNTIME,
                                        CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, submitted);
  FAKE_MEMSET record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  describe(record, bytes, device, stream, correlation);
  run(l, record, submitted, time);
  return correlation;
}
// A call that starts nothing: one that is listed, and one that programs make all the time.
EXPORT void fake_synchronize(uint32_t stream) {
  Library& l = library();
  uint64_t end = 0;
  CUpti_ActivitySynchronization record{};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  record.start = now(l);
  record.correlationId = api_call(l, CUPTI_ACTIVITY_KIND_RUNTIME,
                                  CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020, end);
  record.end = now(l);
  record.contextId = 1;
  record.streamId = stream;
  append(l, record);
}
EXPORT void fake_quiet_call() {
  uint64_t end = 0;
  api_call(library(), CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020,
           end);
}
// A launch by the driver's interface alone.
EXPORT uint32_t fake_driver_launch(const char* name, uint32_t device, uint32_t stream,
                                   uint64_t time) {
  return launch(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, name, device,
                stream, time);
}
// kind: of CUpti_ActivityOverheadKind; those of newer versions of CUDA are not in older headers.
EXPORT void fake_overhead(uint32_t kind) {
  Library& l = library();
  CUpti_ActivityOverhead record{};
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  record.overheadKind = static_cast<CUpti_ActivityOverheadKind>(kind);
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.processId = static_cast<uint32_t>(::getpid());
  record.objectId.pt.threadId = thread_number(l);
  record.start = now(l);
  record.end = now(l);
  append(l, record);
}
// A record without stamps, as CUPTI writes for work that it could not time.
EXPORT void fake_untimed(const char* name) {
  Library& l = library();
  uint64_t end = 0;
  const uint32_t correlation = api_call(l, CUPTI_ACTIVITY_KIND_RUNTIME,
                                        CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, end);
  append(l, kernel_of(name, 0, 7, correlation));
}
EXPORT void fake_drop(uint32_t count) {
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  l.dropped += count;
}
EXPORT uint32_t fake_enabled_kinds() {
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  return static_cast<uint32_t>(l.enabled.size());
}
EXPORT int fake_subscribed() {
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  return l.subscribed ? 1 : 0;
}
