// SPDX-License-Identifier: Apache-2.0
// Compile-time check of cupti_abi.hpp. Not part of the library: a test compiles it against NVIDIA's
// headers of several CUDA versions; any difference is a compile error.
#include <cupti.h>
#if CUPTI_API_VERSION >= 130000
#define GENUINE_MARKER_DATA CUpti_ActivityMarkerData2
#else
#define GENUINE_MARKER_DATA CUpti_ActivityMarkerData
#endif

#include <utility>

#include "backends/cuda/cupti_abi.hpp"

namespace own = fastprof::cupti;

#ifndef FASTPROF_GENUINE_KERNEL
#define FASTPROF_GENUINE_KERNEL CUpti_ActivityKernel5
#define FASTPROF_GENUINE_MEMCPY CUpti_ActivityMemcpy5
#define FASTPROF_GENUINE_MEMSET CUpti_ActivityMemset4
#define FASTPROF_GENUINE_PEER CUpti_ActivityMemcpyPtoP4
#define FASTPROF_GENUINE_MEMORY CUpti_ActivityMemory4
#define FASTPROF_GENUINE_UNIFIED CUpti_ActivityUnifiedMemoryCounter3
#endif

#define SAME(Own, Genuine, field, genuine_field)                                              \
  static_assert(offsetof(own::Own, field) == offsetof(Genuine, genuine_field) &&              \
                    sizeof(own::Own::field) == sizeof(std::declval<Genuine>().genuine_field), \
                #Own "::" #field)

SAME(Record, CUpti_Activity, kind, kind);

SAME(ApiRecord, CUpti_ActivityAPI, kind, kind);
SAME(ApiRecord, CUpti_ActivityAPI, cbid, cbid);
SAME(ApiRecord, CUpti_ActivityAPI, start, start);
SAME(ApiRecord, CUpti_ActivityAPI, end, end);
SAME(ApiRecord, CUpti_ActivityAPI, process_id, processId);
SAME(ApiRecord, CUpti_ActivityAPI, thread_id, threadId);
SAME(ApiRecord, CUpti_ActivityAPI, correlation_id, correlationId);
SAME(ApiRecord, CUpti_ActivityAPI, return_value, returnValue);

SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, kind, kind);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, registers_per_thread, registersPerThread);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, start, start);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, end, end);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, completed, completed);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, device_id, deviceId);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, context_id, contextId);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, stream_id, streamId);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, grid_x, gridX);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, grid_z, gridZ);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, block_x, blockX);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, block_z, blockZ);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, static_shared_memory, staticSharedMemory);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, dynamic_shared_memory, dynamicSharedMemory);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, correlation_id, correlationId);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, name, name);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, queued, queued);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, submitted, submitted);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, graph_node_id, graphNodeId);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, graph_id, graphId);

SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, channel_id, channelID);
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, channel_type, channelType);
#if CUPTI_API_VERSION >= 130100
SAME(KernelRecord, FASTPROF_GENUINE_KERNEL, priority, priority);
#endif

SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, copy_kind, copyKind);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, src_kind, srcKind);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, dst_kind, dstKind);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, bytes, bytes);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, start, start);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, end, end);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, device_id, deviceId);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, context_id, contextId);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, stream_id, streamId);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, correlation_id, correlationId);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, graph_node_id, graphNodeId);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, graph_id, graphId);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, channel_id, channelID);
SAME(MemcpyRecord, FASTPROF_GENUINE_MEMCPY, channel_type, channelType);

SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, bytes, bytes);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, start, start);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, end, end);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, device_id, deviceId);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, stream_id, streamId);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, src_device_id, srcDeviceId);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, dst_device_id, dstDeviceId);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, correlation_id, correlationId);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, graph_node_id, graphNodeId);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, graph_id, graphId);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, channel_id, channelID);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, channel_type, channelType);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, context_id, contextId);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, src_context_id, srcContextId);
SAME(PeerCopyRecord, FASTPROF_GENUINE_PEER, dst_context_id, dstContextId);

SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, bytes, bytes);
SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, start, start);
SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, end, end);
SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, device_id, deviceId);
SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, stream_id, streamId);
SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, correlation_id, correlationId);
SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, memory_kind, memoryKind);
SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, graph_node_id, graphNodeId);
SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, graph_id, graphId);
SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, channel_id, channelID);
SAME(MemsetRecord, FASTPROF_GENUINE_MEMSET, channel_type, channelType);

SAME(SyncRecord, CUpti_ActivitySynchronization, type, type);
SAME(SyncRecord, CUpti_ActivitySynchronization, start, start);
SAME(SyncRecord, CUpti_ActivitySynchronization, end, end);
SAME(SyncRecord, CUpti_ActivitySynchronization, correlation_id, correlationId);
SAME(SyncRecord, CUpti_ActivitySynchronization, context_id, contextId);
SAME(SyncRecord, CUpti_ActivitySynchronization, stream_id, streamId);
SAME(SyncRecord, CUpti_ActivitySynchronization, event_id, cudaEventId);

SAME(MarkerRecord, CUpti_ActivityMarker2, flags, flags);
SAME(MarkerRecord, CUpti_ActivityMarker2, timestamp, timestamp);
SAME(MarkerRecord, CUpti_ActivityMarker2, id, id);
SAME(MarkerRecord, CUpti_ActivityMarker2, object_kind, objectKind);
SAME(MarkerRecord, CUpti_ActivityMarker2, object, objectId);
SAME(MarkerRecord, CUpti_ActivityMarker2, name, name);
SAME(MarkerRecord, CUpti_ActivityMarker2, domain, domain);
SAME(MarkerDataRecord, GENUINE_MARKER_DATA, flags, flags);
SAME(MarkerDataRecord, GENUINE_MARKER_DATA, id, id);
SAME(MarkerDataRecord, GENUINE_MARKER_DATA, payload_kind, payloadKind);
SAME(MarkerDataRecord, GENUINE_MARKER_DATA, payload, payload);
SAME(MarkerDataRecord, GENUINE_MARKER_DATA, color, color);
SAME(MarkerDataRecord, GENUINE_MARKER_DATA, category, category);

SAME(CudaEventRecord, CUpti_ActivityCudaEvent, correlation_id, correlationId);
SAME(CudaEventRecord, CUpti_ActivityCudaEvent, context_id, contextId);
SAME(CudaEventRecord, CUpti_ActivityCudaEvent, stream_id, streamId);
SAME(CudaEventRecord, CUpti_ActivityCudaEvent, event_id, eventId);
#if CUPTI_API_VERSION >= 28
SAME(StampedEventRecord, CUpti_ActivityCudaEvent2, device_id, deviceId);
SAME(StampedEventRecord, CUpti_ActivityCudaEvent2, timestamp, deviceTimestamp);
#endif
SAME(GraphRecord, CUpti_ActivityGraphTrace, correlation_id, correlationId);
SAME(GraphRecord, CUpti_ActivityGraphTrace, start, start);
SAME(GraphRecord, CUpti_ActivityGraphTrace, end, end);
SAME(GraphRecord, CUpti_ActivityGraphTrace, device_id, deviceId);
SAME(GraphRecord, CUpti_ActivityGraphTrace, graph_id, graphId);
SAME(GraphRecord, CUpti_ActivityGraphTrace, context_id, contextId);
SAME(GraphRecord, CUpti_ActivityGraphTrace, stream_id, streamId);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, operation, memoryOperationType);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, memory_kind, memoryKind);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, correlation_id, correlationId);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, address, address);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, bytes, bytes);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, timestamp, timestamp);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, device_id, deviceId);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, context_id, contextId);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, stream_id, streamId);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, name, name);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, is_async, isAsync);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, pool_type, memoryPoolConfig.memoryPoolType);
SAME(MemoryRecord, FASTPROF_GENUINE_MEMORY, pool_address, memoryPoolConfig.address);
SAME(MemoryPoolRecord, CUpti_ActivityMemoryPool2, operation, memoryPoolOperationType);
SAME(MemoryPoolRecord, CUpti_ActivityMemoryPool2, pool_type, memoryPoolType);
SAME(MemoryPoolRecord, CUpti_ActivityMemoryPool2, correlation_id, correlationId);
SAME(MemoryPoolRecord, CUpti_ActivityMemoryPool2, device_id, deviceId);
SAME(MemoryPoolRecord, CUpti_ActivityMemoryPool2, min_bytes_to_keep, minBytesToKeep);
SAME(MemoryPoolRecord, CUpti_ActivityMemoryPool2, address, address);
SAME(MemoryPoolRecord, CUpti_ActivityMemoryPool2, size, size);
SAME(MemoryPoolRecord, CUpti_ActivityMemoryPool2, release_threshold, releaseThreshold);
SAME(MemoryPoolRecord, CUpti_ActivityMemoryPool2, timestamp, timestamp);
SAME(UnifiedMemoryRecord, FASTPROF_GENUINE_UNIFIED, counter, counterKind);
SAME(UnifiedMemoryRecord, FASTPROF_GENUINE_UNIFIED, value, value);
SAME(UnifiedMemoryRecord, FASTPROF_GENUINE_UNIFIED, start, start);
SAME(UnifiedMemoryRecord, FASTPROF_GENUINE_UNIFIED, end, end);
SAME(UnifiedMemoryRecord, FASTPROF_GENUINE_UNIFIED, address, address);
SAME(UnifiedMemoryRecord, FASTPROF_GENUINE_UNIFIED, src_id, srcId);
SAME(UnifiedMemoryRecord, FASTPROF_GENUINE_UNIFIED, dst_id, dstId);
SAME(UnifiedMemoryRecord, FASTPROF_GENUINE_UNIFIED, stream_id, streamId);
SAME(UnifiedMemoryConfig, CUpti_ActivityUnifiedMemoryCounterConfig, scope, scope);
SAME(UnifiedMemoryConfig, CUpti_ActivityUnifiedMemoryCounterConfig, kind, kind);
SAME(UnifiedMemoryConfig, CUpti_ActivityUnifiedMemoryCounterConfig, device_id, deviceId);
SAME(UnifiedMemoryConfig, CUpti_ActivityUnifiedMemoryCounterConfig, enable, enable);

SAME(OverheadRecord, CUpti_ActivityOverhead, overhead_kind, overheadKind);
SAME(OverheadRecord, CUpti_ActivityOverhead, object_kind, objectKind);
SAME(OverheadRecord, CUpti_ActivityOverhead, object, objectId);
SAME(OverheadRecord, CUpti_ActivityOverhead, start, start);
SAME(OverheadRecord, CUpti_ActivityOverhead, end, end);
static_assert(offsetof(CUpti_ActivityObjectKindId, pt.threadId) == 4, "object[1] is the thread");

#define EQUAL(ours, theirs) static_assert(static_cast<uint32_t>(theirs) == ours, #theirs)
EQUAL(own::result::success, CUPTI_SUCCESS);
EQUAL(own::marker_flag::instant, CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS);
EQUAL(own::marker_flag::start, CUPTI_ACTIVITY_FLAG_MARKER_START);
EQUAL(own::marker_flag::end, CUPTI_ACTIVITY_FLAG_MARKER_END);
EQUAL(own::marker_flag::has_color, CUPTI_ACTIVITY_FLAG_MARKER_COLOR_ARGB);
EQUAL(own::marker_value::float64, CUPTI_METRIC_VALUE_KIND_DOUBLE);
EQUAL(own::marker_value::uint64, CUPTI_METRIC_VALUE_KIND_UINT64);
EQUAL(own::marker_value::int64, CUPTI_METRIC_VALUE_KIND_INT64);
EQUAL(own::kind::marker, CUPTI_ACTIVITY_KIND_MARKER);
EQUAL(own::kind::marker_data, CUPTI_ACTIVITY_KIND_MARKER_DATA);
EQUAL(own::result::max_limit_reached, CUPTI_ERROR_MAX_LIMIT_REACHED);
EQUAL(own::result::invalid_parameter, CUPTI_ERROR_INVALID_PARAMETER);
EQUAL(own::result::not_initialized, CUPTI_ERROR_NOT_INITIALIZED);
EQUAL(own::result::insufficient_privileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
EQUAL(own::result::multiple_subscribers, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
EQUAL(own::result::unknown, CUPTI_ERROR_UNKNOWN);
EQUAL(own::kind::memcpy, CUPTI_ACTIVITY_KIND_MEMCPY);
EQUAL(own::kind::memset, CUPTI_ACTIVITY_KIND_MEMSET);
EQUAL(own::kind::driver, CUPTI_ACTIVITY_KIND_DRIVER);
EQUAL(own::kind::runtime, CUPTI_ACTIVITY_KIND_RUNTIME);
EQUAL(own::kind::concurrent_kernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
EQUAL(own::kind::overhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
EQUAL(own::kind::memcpy2, CUPTI_ACTIVITY_KIND_MEMCPY2);
EQUAL(own::kind::synchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
EQUAL(own::domain::driver_api, CUPTI_CB_DOMAIN_DRIVER_API);
EQUAL(own::domain::runtime_api, CUPTI_CB_DOMAIN_RUNTIME_API);
EQUAL(own::kThreadIdSystem, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
EQUAL(own::kThreadIdDefault, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
EQUAL(own::result::virtualized_not_supported, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
#if CUPTI_API_VERSION >= 28
EQUAL(own::kZeroedBuffers, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
EQUAL(own::result::virtualized_insufficient_privileges,
      CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
EQUAL(own::result::mig_not_supported, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED);
#endif
#if CUPTI_API_VERSION >= 130000
SAME(SubscriberParams, CUpti_SubscriberParams, struct_size, structSize);
SAME(SubscriberParams, CUpti_SubscriberParams, name, subscriberName);
SAME(SubscriberParams, CUpti_SubscriberParams, holder, oldSubscriberName);
SAME(SubscriberParams, CUpti_SubscriberParams, holder_bytes, oldSubscriberSize);
#endif
EQUAL(own::kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
EQUAL(own::kObjectThread, CUPTI_ACTIVITY_OBJECT_THREAD);
EQUAL(own::kNoStream, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
EQUAL(own::unified::htod, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD);
EQUAL(own::unified::dtoh, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH);
EQUAL(own::unified::cpu_page_fault,
      CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT);
EQUAL(own::unified::gpu_page_fault, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT);
EQUAL(own::unified::thrashing, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING);
EQUAL(own::unified::throttling, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING);
EQUAL(own::unified::remote_map, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP);
EQUAL(own::unified::dtod, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD);
EQUAL(own::unified::all_devices, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES);
EQUAL(own::kind::unified_memory, CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
EQUAL(own::kind::cuda_event, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
EQUAL(own::kind::graph_trace, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
EQUAL(own::kind::memory2, CUPTI_ACTIVITY_KIND_MEMORY2);
EQUAL(own::kind::memory_pool, CUPTI_ACTIVITY_KIND_MEMORY_POOL);
EQUAL(own::synchronization::event, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE);
EQUAL(own::synchronization::stream_wait_event,
      CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT);
EQUAL(own::synchronization::stream, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
EQUAL(own::synchronization::context, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE);
