// SPDX-License-Identifier: Apache-2.0
// The part of CUPTI's binary interface that fastprof uses, declared from NVIDIA's documentation, so
// that no header of NVIDIA's is needed to build. tests/abi compares it with the genuine
// headers.
//
// Records are prefixes: CUPTI only appends fields from one version to the next (from CUDA 11 on for
// the records below), so that one reader serves all versions. Their true sizes differ: walk a
// buffer with cuptiActivityGetNextRecord only. Fields behind a version in a comment exist from that
// version on: compare CuptiLibrary::version before reading them, and do not copy such records.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

#define FASTPROF_CUPTI_RECORD __attribute__((__packed__, __aligned__(8)))

using Result = uint32_t;
namespace result {
constexpr Result success = 0, invalid_parameter = 1, max_limit_reached = 12, not_initialized = 15,
                 virtualized_not_supported = 33, insufficient_privileges = 35,
                 multiple_subscribers = 39, virtualized_insufficient_privileges = 40,
                 mig_not_supported = 43, unknown = 999;
}

// CUpti_ActivityKind.
namespace kind {
constexpr uint32_t memcpy = 1, memset = 2, driver = 4, runtime = 5, concurrent_kernel = 10,
                   marker = 12, marker_data = 13, overhead = 17, memcpy2 = 22, unified_memory = 25,
                   cuda_event = 36, synchronization = 38, memory2 = 49, memory_pool = 50,
                   graph_trace = 51;
}

// CUpti_ActivityUnifiedMemoryCounterKind and ...Scope.
namespace unified {
constexpr uint32_t htod = 1, dtoh = 2, cpu_page_fault = 3, gpu_page_fault = 4, thrashing = 5,
                   throttling = 6, remote_map = 7, dtod = 8;
constexpr uint32_t all_devices = 2;
}  // namespace unified

// CUpti_ActivitySynchronizationType.
namespace synchronization {
constexpr uint32_t event = 1, stream_wait_event = 2, stream = 3, context = 4;
}

// CUpti_ActivityFlag of markers and of their data; CUpti_MetricValueKind.
namespace marker_flag {
constexpr uint32_t instant = 1, start = 2, end = 4, has_color = 2;
}
namespace marker_value {
constexpr uint32_t float64 = 0, uint64 = 1, int64 = 4;
}

// Versions of CUPTI, as cuptiGetVersion() numbers them.
namespace api {
constexpr uint32_t cuda_11_8 = 18, cuda_12_9 = 28, cuda_13_1 = 130100;
}

// CUpti_CallbackDomain.
namespace domain {
constexpr uint32_t driver_api = 1, runtime_api = 2;
}

constexpr uint32_t kThreadIdDefault = 0;     // CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT
constexpr uint32_t kThreadIdSystem = 1;      // CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM: gettid()
constexpr uint32_t kZeroedBuffers = 5;       // CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER
constexpr uint32_t kFlushForced = 1;         // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
constexpr uint32_t kObjectThread = 2;        // CUPTI_ACTIVITY_OBJECT_THREAD
constexpr uint32_t kNoStream = 0xFFFFFFFFu;  // CUPTI_SYNCHRONIZATION_INVALID_VALUE

struct FASTPROF_CUPTI_RECORD Record {
  uint32_t kind;
};

// CUpti_ActivityAPI.
struct FASTPROF_CUPTI_RECORD ApiRecord {
  uint32_t kind, cbid;
  uint64_t start, end;
  uint32_t process_id, thread_id, correlation_id, return_value;
};

// CUpti_ActivityKernel5 (CUDA 11.0), the prefix of all later ones.
struct FASTPROF_CUPTI_RECORD KernelRecord {
  uint32_t kind;
  uint8_t cache_config, shared_memory_config;
  uint16_t registers_per_thread;
  uint32_t global_cache_requested, global_cache_executed;
  uint64_t start, end, completed;
  uint32_t device_id, context_id, stream_id;
  int32_t grid_x, grid_y, grid_z, block_x, block_y, block_z;
  int32_t static_shared_memory, dynamic_shared_memory;
  uint32_t local_memory_per_thread, local_memory_total, correlation_id;
  int64_t grid_id;
  const char* name;
  void* reserved0;
  uint64_t queued, submitted;
  uint8_t launch_type, shared_memory_carveout_asked, shared_memory_carveout, padding;
  uint32_t shared_memory_executed;
  uint64_t graph_node_id;
  uint32_t shared_memory_limit, graph_id;
  // CUDA 11.8 (Kernel8)
  void* access_policy;
  uint32_t channel_id, channel_type;
  uint32_t cluster_x, cluster_y, cluster_z, cluster_scheduling_policy;
  uint64_t local_memory_total_v2;
  // CUDA 13.1 (Kernel11)
  uint32_t max_potential_cluster_size, max_active_clusters;
  uint8_t is_device_launched, padding3[7];
  int32_t priority;
  uint32_t padding4;
};

// CUpti_ActivityMemcpy3 (CUDA 11.0).
struct FASTPROF_CUPTI_RECORD MemcpyRecord {
  uint32_t kind;
  uint8_t copy_kind, src_kind, dst_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device_id, context_id, stream_id, correlation_id, runtime_correlation_id, pad;
  void* reserved0;
  uint64_t graph_node_id;
  // CUDA 11.8 (Memcpy5)
  uint32_t graph_id, channel_id, channel_type, pad2;
};

// CUpti_ActivityMemcpyPtoP2 (CUDA 11.0).
struct FASTPROF_CUPTI_RECORD PeerCopyRecord {
  uint32_t kind;
  uint8_t copy_kind, src_kind, dst_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device_id, context_id, stream_id;
  uint32_t src_device_id, src_context_id, dst_device_id, dst_context_id, correlation_id;
  void* reserved0;
  uint64_t graph_node_id;
  // CUDA 11.8 (MemcpyPtoP4)
  uint32_t graph_id, channel_id, channel_type, pad2;
};

// CUpti_ActivityMemset2 (CUDA 11.0).
struct FASTPROF_CUPTI_RECORD MemsetRecord {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device_id, context_id, stream_id, correlation_id;
  uint16_t flags, memory_kind;
  uint32_t pad;
  void* reserved0;
  uint64_t graph_node_id;
  // CUDA 11.8 (Memset4)
  uint32_t graph_id, channel_id, channel_type, pad2;
};

// CUpti_ActivitySynchronization.
struct FASTPROF_CUPTI_RECORD SyncRecord {
  uint32_t kind, type;
  uint64_t start, end;
  uint32_t correlation_id, context_id, stream_id, event_id;
};

// CUpti_ActivityCudaEvent: cudaEventRecord() was called.
struct FASTPROF_CUPTI_RECORD CudaEventRecord {
  uint32_t kind, correlation_id, context_id, stream_id, event_id, pad;
};

// CUpti_ActivityCudaEvent2 (CUDA 12.8): its stamp is 0 unless stamps of events are switched on.
struct FASTPROF_CUPTI_RECORD StampedEventRecord {
  CudaEventRecord event;
  uint32_t device_id, pad2;
  void* reserved0;
  uint64_t timestamp, sync_id;
};

// CUpti_ActivityGraphTrace (CUDA 11.7): a launch of a CUDA graph as a whole.
struct FASTPROF_CUPTI_RECORD GraphRecord {
  uint32_t kind, correlation_id;
  uint64_t start, end;
  uint32_t device_id, graph_id, context_id, stream_id;
};

// CUpti_ActivityMemory2 (CUDA 11.2), up to its pool's address: memory was allocated or released.
struct FASTPROF_CUPTI_RECORD MemoryRecord {
  uint32_t kind, operation, memory_kind, correlation_id;
  uint64_t address, bytes, timestamp, pc;
  uint32_t process_id, device_id, context_id, stream_id;
  const char* name;
  uint32_t is_async, pad1, pool_type, pad2;
  uint64_t pool_address;
};

// CUpti_ActivityMemoryPool (CUDA 11.2): a pool was created, destroyed or trimmed.
struct FASTPROF_CUPTI_RECORD MemoryPoolRecord {
  uint32_t kind, operation, pool_type, correlation_id, process_id, device_id;
  uint64_t min_bytes_to_keep, address, size, release_threshold, timestamp;
};

// CUpti_ActivityUnifiedMemoryCounter2: pages of managed memory moved or faulted.
struct FASTPROF_CUPTI_RECORD UnifiedMemoryRecord {
  uint32_t kind, counter;
  uint64_t value, start, end, address;
  uint32_t src_id, dst_id, stream_id, process_id, flags, pad;
};

// CUpti_ActivityUnifiedMemoryCounterConfig.
struct FASTPROF_CUPTI_RECORD UnifiedMemoryConfig {
  uint32_t scope, kind, device_id, enable;
};

// CUpti_ActivityOverhead. The object is a process and thread, or a device, context and stream.
struct FASTPROF_CUPTI_RECORD OverheadRecord {
  uint32_t kind, overhead_kind, object_kind;
  uint32_t object[3];
  uint64_t start, end;
};

// CUpti_ActivityMarker2: an instant, or one end of a range, that the program has reported by NVTX.
struct FASTPROF_CUPTI_RECORD MarkerRecord {
  uint32_t kind, flags;
  uint64_t timestamp;
  uint32_t id, object_kind;
  uint32_t object[3];
  uint32_t pad;
  const char* name;    // null at the end of a range
  const char* domain;  // null: the default domain
};

// CUpti_ActivityMarkerData: further attributes of a marker. The payload has no value if it has no
// kind.
struct FASTPROF_CUPTI_RECORD MarkerDataRecord {
  uint32_t kind, flags, id, payload_kind;
  uint64_t payload;
  uint32_t color, category;
};

// CUpti_SubscriberParams of CUDA 13.0. Later versions append fields; CUPTI reads struct_size bytes.
struct SubscriberParams {
  size_t struct_size;
  const char* name;     // ours, for the messages of others
  char* holder;         // receives the name of the client that holds CUPTI
  size_t holder_bytes;  // at least 64
};

using RequestBuffer = void (*)(uint8_t** buffer, size_t* size, size_t* max_records);
using CompleteBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                                size_t valid_size);
using Timestamp = uint64_t (*)();
using Callback = void (*)(void* user, uint32_t domain, uint32_t cbid, const void* data);

}  // namespace cupti
FASTPROF_NAMESPACE_END
