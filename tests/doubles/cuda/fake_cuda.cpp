// SPDX-License-Identifier: Apache-2.0
// A double of libcupti and of the program that uses the GPU, for machines without one. Built from
// NVIDIA's genuine headers, so that its records have the sizes and layouts of that version of CUDA.
//
// It behaves as NVIDIA documents: records are delivered by threads of its own, each thread that
// makes calls has buffers of its own, buffers come back in any order, the clock that was registered
// stamps everything, and one client is accepted. FAKE_CUPTI_FAIL="cuptiSubscribe=39,..." makes
// functions fail. It proves our reading of the documentation, not what the real library does.
//
// fake_launch() and the others play the program: they do what the runtime's functions would.
#include <cupti.h>
#if CUPTI_API_VERSION > 18  // older structs have a header of their own from CUDA 12 on
#include <cupti_activity_deprecated.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

#ifndef FAKE_KERNEL
#define FAKE_KERNEL CUpti_ActivityKernel9
#define FAKE_MEMCPY CUpti_ActivityMemcpy5
#define FAKE_MEMSET CUpti_ActivityMemset4
#define FAKE_PEER CUpti_ActivityMemcpyPtoP4
#define FAKE_MEMORY CUpti_ActivityMemory3
#define FAKE_UNIFIED CUpti_ActivityUnifiedMemoryCounter2
#define FAKE_EVENT CUpti_ActivityCudaEvent
#define FAKE_GRAPH CUpti_ActivityGraphTrace
#endif
#ifndef FAKE_VERSION
#define FAKE_VERSION CUPTI_API_VERSION
#endif

namespace {

struct Filling {
  uint8_t* memory = nullptr;
  size_t size = 0, used = 0;
};

// Kernels run one after another on each stream.
struct Library {
  std::mutex lock;
  std::condition_variable changed;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc clock = nullptr;
  std::set<uint32_t> enabled;
  bool subscribed = false;
  bool system_threads = false;
  bool counts_unified_memory = false;
  std::map<std::thread::id, Filling> filling;
  std::vector<Filling> full;  // waiting for the delivering thread
  size_t delivering = 0;
  size_t dropped = 0;
  std::map<uint64_t, uint64_t> stream_free_at;
  uint32_t correlation = 0;
  bool started = false;
  // Calls switched off, by kind and cbid. As seen with CUDA 13.0 on an H100: enabling a kind
  // switches its calls on, and switching one call on without its kind has no effect.
  std::set<std::pair<uint32_t, uint32_t>> silent;
  bool stamps_events = false;
  bool captured_whole = false;  // whether graphs were traced as a whole at the capture
  int stale_stamps = 0;         // kernels that still get the clock from before a registration
};

Library& library() {
  static Library* const only = new Library;
  return *only;
}

// Names live as long as the library.
const char* own_name(const char* name) {
  static std::set<std::string>* const names = new std::set<std::string>;
  static std::mutex lock;
  std::lock_guard<std::mutex> hold(lock);
  return names->insert(name).first->c_str();
}

CUptiResult failure(const char* function) {
  const char* text = std::getenv("FAKE_CUPTI_FAIL");
  if (text == nullptr) return CUPTI_SUCCESS;
  const std::string wanted = std::string(function) + "=";
  const char* at = std::strstr(text, wanted.c_str());
  return at == nullptr ? CUPTI_SUCCESS : static_cast<CUptiResult>(std::atoi(at + wanted.size()));
}
// FAKE_CUPTI_FAIL="cuptiActivityEnable:10=35" refuses one kind.
CUptiResult failure_of_kind(const char* function, uint32_t kind) {
  return failure((std::string(function) + ":" + std::to_string(kind)).c_str());
}
#define MAY_FAIL() \
  if (const CUptiResult code = failure(__func__); code != CUPTI_SUCCESS) return code

uint64_t now(Library& l) {
  if (l.clock != nullptr) return l.clock();
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

uint32_t thread_number(const Library& l) {
  return l.system_threads ? static_cast<uint32_t>(::syscall(SYS_gettid))
                          : static_cast<uint32_t>(::pthread_self());
}

// Delivers full buffers, the latest first.
void deliver_forever() {
  Library& l = library();
  std::unique_lock<std::mutex> hold(l.lock);
  for (;;) {
    l.changed.wait(hold, [&] { return !l.full.empty(); });
    const Filling buffer = l.full.back();
    l.full.pop_back();
    ++l.delivering;
    hold.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    l.complete(nullptr, 0, buffer.memory, buffer.size, buffer.used);
    hold.lock();
    --l.delivering;
    l.changed.notify_all();
  }
}

template <class Record>
void append(Library& l, const Record& record) {
  std::unique_lock<std::mutex> hold(l.lock);
  if (l.request == nullptr || l.enabled.count(static_cast<uint32_t>(record.kind)) == 0) return;
  Filling& buffer = l.filling[std::this_thread::get_id()];
  if (buffer.memory == nullptr || buffer.used + sizeof record > buffer.size) {
    if (buffer.memory != nullptr) {
      l.full.push_back(buffer);
      l.changed.notify_all();
      buffer = Filling{};
    }
    size_t most = 0;
    l.request(&buffer.memory, &buffer.size, &most);
    // Small buffers in effect, so that tests see many of them.
    const char* bytes = std::getenv("FAKE_CUPTI_BUFFER_BYTES");
    if (bytes != nullptr)
      buffer.size = std::min(buffer.size, static_cast<size_t>(std::atol(bytes)));
    if (buffer.memory == nullptr) {
      ++l.dropped;
      return;
    }
  }
  std::memcpy(buffer.memory + buffer.used, &record, sizeof record);
  buffer.used += sizeof record;
}

size_t size_of(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(FAKE_KERNEL);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(FAKE_MEMCPY);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(FAKE_PEER);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(FAKE_MEMSET);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_MARKER_DATA:
      return sizeof(CUpti_ActivityMarkerData);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(FAKE_EVENT);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(FAKE_GRAPH);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(FAKE_MEMORY);
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
      return sizeof(CUpti_ActivityMemoryPool2);
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
      return sizeof(FAKE_UNIFIED);
    default:
      std::abort();
  }
}

// Time passes in the unit of the clock that is in force: ns, or ticks of the client.
uint64_t work_on(Library& l, uint32_t device, uint32_t stream, uint64_t submitted, uint64_t time,
                 uint64_t& end) {
  std::lock_guard<std::mutex> hold(l.lock);
  uint64_t& free_at = l.stream_free_at[uint64_t{device} << 32 | stream];
  const uint64_t start = std::max(free_at, submitted);
  end = free_at = start + time;
  return start;
}

// Ids that a client has pushed, by kind: those of a thread go with each of its calls.
constexpr size_t kExternalKinds = CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
thread_local std::vector<uint64_t> t_external[kExternalKinds];

void append_external_ids(Library& l, uint32_t correlation) {
  for (size_t kind = 0; kind < kExternalKinds; ++kind) {
    if (t_external[kind].empty()) continue;
    CUpti_ActivityExternalCorrelation record{};
    record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    record.externalKind = static_cast<CUpti_ExternalCorrelationKind>(kind);
    record.externalId = t_external[kind].back();
    record.correlationId = correlation;
    append(l, record);
  }
}

uint32_t api_call(Library& l, CUpti_ActivityKind kind, uint32_t cbid, uint64_t& end) {
  CUpti_ActivityAPI call{};
  call.kind = kind;
  call.cbid = cbid;
  call.start = now(l);
  {
    std::lock_guard<std::mutex> hold(l.lock);
    call.correlationId = ++l.correlation;
  }
  call.processId = static_cast<uint32_t>(::getpid());
  call.threadId = thread_number(l);
  call.end = end = now(l);
  append_external_ids(l, call.correlationId);
  bool silent = false;
  {
    std::lock_guard<std::mutex> hold(l.lock);
    silent = l.silent.count({static_cast<uint32_t>(kind), cbid}) != 0;
  }
  if (!silent) append(l, call);
  return call.correlationId;
}

}  // namespace

EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  MAY_FAIL();
  *version = FAKE_VERSION;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetResultString(CUptiResult code, const char** text) {
  *text = code == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
              ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
              : "CUPTI_ERROR_FAKE";
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetTimestamp(uint64_t* time) {
  MAY_FAIL();
  *time = now(library());
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*) {
  MAY_FAIL();
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  if (l.subscribed) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  l.subscribed = true;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&l);
  return CUPTI_SUCCESS;
}
#if CUPTI_API_VERSION >= 130000
EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber,
                                     CUpti_CallbackFunc callback, void* user,
                                     CUpti_SubscriberParams* params) {
  MAY_FAIL();
  static std::string* const holder = new std::string;
  const CUptiResult code = cuptiSubscribe(subscriber, callback, user);
  if (params == nullptr) return code;
  if (params->structSize < 32) return CUPTI_ERROR_INVALID_PARAMETER;
  if (code == CUPTI_SUCCESS)
    *holder = params->subscriberName == nullptr ? "<not provided>" : params->subscriberName;
  else if (params->oldSubscriberName != nullptr)
    std::snprintf(params->oldSubscriberName, params->oldSubscriberSize, "CUPTI for %s",
                  holder->empty() ? "<not provided>" : holder->c_str());
  return code;
}
#endif
EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  MAY_FAIL();
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  if (!l.subscribed) return CUPTI_ERROR_INVALID_PARAMETER;
  l.subscribed = false;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                  CUpti_BuffersCallbackCompleteFunc complete) {
  MAY_FAIL();
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  l.request = request;
  l.complete = complete;
  if (!l.started) {
    l.started = true;
    std::thread(deliver_forever).detach();
  }
  return CUPTI_SUCCESS;
}
#ifndef FAKE_WITHOUT_TIMESTAMPS
EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  MAY_FAIL();
  // Each registration after the first may leave records with the clock before it: pytorch#192021.
  const char* stale = std::getenv("FAKE_CUPTI_STALE_STAMPS");
  if (library().clock != nullptr && stale != nullptr) library().stale_stamps += std::atoi(stale);
  if (library().clock != clock) library().stream_free_at.clear();  // in the unit of the clock
  library().clock = clock;
  return CUPTI_SUCCESS;
}
#endif
EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  MAY_FAIL();
  library().system_threads = type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(
    CUpti_ActivityUnifiedMemoryCounterConfig* configs, uint32_t count) {
  MAY_FAIL();
  if (configs == nullptr || count == 0 || configs[0].enable != 1)
    return CUPTI_ERROR_INVALID_PARAMETER;
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  l.counts_unified_memory = true;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  MAY_FAIL();
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  if (const CUptiResult code = failure_of_kind(__func__, kind); code != CUPTI_SUCCESS) return code;
  l.enabled.insert(static_cast<uint32_t>(kind));
  for (auto at = l.silent.begin(); at != l.silent.end();)
    at = at->first == static_cast<uint32_t>(kind) ? l.silent.erase(at) : std::next(at);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t on) {
  MAY_FAIL();
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  if (on == 0) l.silent.insert({CUPTI_ACTIVITY_KIND_RUNTIME, cbid});
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t on) {
  MAY_FAIL();
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  if (on == 0) l.silent.insert({CUPTI_ACTIVITY_KIND_DRIVER, cbid});
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  MAY_FAIL();
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  l.enabled.erase(static_cast<uint32_t>(kind));
  return CUPTI_SUCCESS;
}
// For tests: returns when all full buffers have been delivered.
EXPORT void fake_await_delivery() {
  Library& l = library();
  std::unique_lock<std::mutex> hold(l.lock);
  l.changed.wait(hold, [&] { return l.full.empty() && l.delivering == 0; });
}
// For tests: the next kernels have the clock from before a registration.
EXPORT void fake_spoil_stamps(int kernels) {
  library().stale_stamps = kernels;
}
EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  MAY_FAIL();
  Library& l = library();
  std::unique_lock<std::mutex> hold(l.lock);
  // Without CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, buffers with a record that is not complete stay; the
  // double's records are complete when they are written.
  (void)flag;
  // A client waits for the device before it flushes at the end; here the end of all work is waited
  // for.
  uint64_t end = 0;
  for (const auto& [stream, free_at] : l.stream_free_at) end = std::max(end, free_at);
  for (int i = 0; flag != 0 && i < 10000 && now(l) < end; ++i) {
    hold.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    hold.lock();
  }
  for (auto& [thread, buffer] : l.filling)
    if (buffer.memory != nullptr) l.full.push_back(buffer);
  l.filling.clear();
  l.changed.notify_all();
  l.changed.wait(hold, [&] { return l.full.empty() && l.delivering == 0; });
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  MAY_FAIL();
  Library& l = library();
  std::lock_guard<std::mutex> hold(l.lock);
  *dropped = l.dropped;
  l.dropped = 0;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid,
                                              CUpti_Activity** record) {
  MAY_FAIL();
  uint8_t* next = buffer;
  if (*record != nullptr) next = reinterpret_cast<uint8_t*>(*record) + size_of(*record);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                        const char** name) {
  MAY_FAIL();
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    *name = cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel ? "cuLaunchKernel"
            : cbid == CUPTI_DRIVER_TRACE_CBID_cuMemMap     ? "cuMemMap"
            : cbid == CUPTI_DRIVER_TRACE_CBID_cuMemCreate  ? "cuMemCreate"
                                                           : "cuCtxGetCurrent";
    return CUPTI_SUCCESS;
  }
  switch (cbid) {
    case CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000:
      *name = "cudaLaunchKernel_v7000";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020:
      *name = "cudaMemcpyAsync_v3020";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020:
      *name = "cudaMemsetAsync_v3020";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000:
      *name = "cudaGraphLaunch_v10000";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020:
      *name = "cudaMalloc_v3020";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020:
      *name = "cudaEventRecord_v3020";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020:
      *name = "cudaStreamWaitEvent_v3020";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020:
      *name = "cudaDeviceSynchronize_v3020";
      break;
    default:
      *name = "cudaGetDevice_v3020";
  }
  return CUPTI_SUCCESS;
}

#include "fake_markers.hpp"
#include "fake_memory.hpp"
#include "fake_other_calls.hpp"
#include "fake_program.hpp"
