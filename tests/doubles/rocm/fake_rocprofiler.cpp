// SPDX-License-Identifier: Apache-2.0
// A double of librocprofiler-sdk 1.x and of the program that uses HIP, for machines without an AMD
// GPU. Built from fastprof's declarations, which tests/abi compares with AMD's headers.
//
// It behaves as AMD's sources do: tools are configured once, by the first that forces it, together
// with those of ROCP_TOOL_LIBRARIES, and only meanwhile may make contexts; buffers are delivered by
// a thread of its own; a kernel's record is made by another thread some time after the kernel has
// ended; its call is retired after that; the clock is CLOCK_BOOTTIME (here: another epoch). It
// proves our reading of the sources, not what the real library does.
//
//   FAKE_ROCPROFILER_FAIL="rocprofiler_start_context=9,..."   makes functions fail
//   FAKE_ROCPROFILER_VERSION="0.6"                            version that it reports
//   FAKE_ROCPROFILER_INITIALIZED=1                            another tool was first
//   FAKE_ROCPROFILER_LOSE=1                                   work never ends
//
// fake_launch() and the others play the program.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/rocm/rocprofiler_abi.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace fastprof::rocm;

namespace {

// Operations of HIP's runtime that the double knows, by number.
constexpr const char* kCalls[] = {"hipGetDevice", "hipLaunchKernel", "hipMemcpyAsync",
                                  "hipGraphLaunch", "hipDeviceSynchronize"};
constexpr Handle kCpu = 900, kFirstGpu = 901;
constexpr int kGpus = 2;

struct Context {
  bool active = false;
  std::set<std::pair<uint32_t, int32_t>> operations;  // kind, operation; -1: all
  Handle buffer = 0;
  CallbackTracing callback = nullptr;
  ExternalRequest external = nullptr;
  bool traces(uint32_t kind, int32_t operation = -1) const {
    return active &&
           (operations.count({kind, operation}) != 0 || operations.count({kind, -1}) != 0);
  }
};

struct Stored {
  uint32_t kind;
  std::vector<uint8_t> bytes;
};
struct Buffer {
  BufferCallback callback = nullptr;
  size_t size = 0, watermark = 0, used = 0;
  std::vector<Stored> filling;
};

struct Work {
  std::chrono::steady_clock::time_point ready;
  uint64_t internal;
  uint32_t kind;
  std::vector<uint8_t> record;
};

struct Library {
  std::mutex lock;
  std::condition_variable changed;
  int initialized = std::getenv("FAKE_ROCPROFILER_INITIALIZED") != nullptr ? 1 : 0;
  std::map<Handle, Context> contexts;
  std::map<Handle, Buffer> buffers;
  std::deque<std::pair<Handle, std::vector<Stored>>> full;
  size_t delivering = 0;
  std::deque<Work> running;
  std::map<uint64_t, int> references;  // by internal correlation
  std::map<std::string, uint64_t> kernels;
  std::map<std::pair<int, uint64_t>, uint64_t> queue_free_at;
  uint64_t last_internal = 0;
  bool started = false;
};
Library& library() {
  static Library* const only = new Library;
  return *only;
}

Status failure(const char* function) {
  const char* const text = std::getenv("FAKE_ROCPROFILER_FAIL");
  const std::string wanted = std::string(function) + "=";
  const char* const at = text != nullptr ? std::strstr(text, wanted.c_str()) : nullptr;
  return at == nullptr ? status::success : static_cast<Status>(std::atoi(at + wanted.size()));
}
#define MAY_FAIL() \
  if (const Status code = failure(__func__); code != status::success) return code
#define ONLY_WHILE_CONFIGURED() \
  MAY_FAIL();                   \
  if (library().initialized > -1) return status::configuration_locked

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec) +
         5000000000000u;
}

// Requires the lock.
void hand_over(Library& l, Handle handle, Buffer& buffer) {
  if (buffer.filling.empty()) return;
  l.full.emplace_back(handle, std::move(buffer.filling));
  buffer.filling.clear();
  buffer.used = 0;
  l.changed.notify_all();
}

template <class Record>
void append(Library& l, uint32_t kind, int32_t operation, const Record& record) {
  for (auto& [handle, context] : l.contexts) {
    if (!context.traces(kind, operation)) continue;
    Buffer& buffer = l.buffers[context.buffer];
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&record);
    buffer.filling.push_back({kind, std::vector<uint8_t>(bytes, bytes + sizeof record)});
    buffer.used += sizeof record;
    if (buffer.used >= buffer.watermark) hand_over(l, context.buffer, buffer);
  }
}

// Requires the lock. Retires a call when nothing refers to it.
void release(Library& l, uint64_t internal) {
  if (--l.references[internal] != 0) return;
  l.references.erase(internal);
  RetirementRecord record{sizeof record, buffered::retirement, now_ns(), internal};
  append(l, buffered::retirement, -1, record);
}

void deliver_forever() {
  Library& l = library();
  std::unique_lock<std::mutex> hold(l.lock);
  for (;;) {
    l.changed.wait(hold, [&] { return !l.full.empty(); });
    auto [handle, records] = std::move(l.full.front());
    l.full.pop_front();
    const BufferCallback callback = l.buffers[handle].callback;
    ++l.delivering;
    hold.unlock();
    std::vector<RecordHeader> headers;
    for (const Stored& each : records)
      headers.push_back({kCategoryTracing, each.kind, each.bytes.data()});
    std::vector<RecordHeader*> pointers;
    for (RecordHeader& each : headers) pointers.push_back(&each);
    callback(0, handle, pointers.data(), pointers.size(), nullptr, 0);
    hold.lock();
    --l.delivering;
    l.changed.notify_all();
  }
}

// The runtime's thread that is told of the ends of work.
void complete_forever() {
  Library& l = library();
  std::unique_lock<std::mutex> hold(l.lock);
  for (;;) {
    l.changed.wait(hold, [&] { return !l.running.empty(); });
    Work work = std::move(l.running.front());
    l.running.pop_front();
    hold.unlock();
    std::this_thread::sleep_until(work.ready + std::chrono::milliseconds(2));
    hold.lock();
    if (work.kind == buffered::kernel_dispatch) {
      // A record of the genuine size, of which ours is the beginning.
      struct {
        KernelRecord record;
        uint8_t reserved[56];
      } full{};
      std::memcpy(&full.record, work.record.data(), sizeof full.record);
      append(l, work.kind, -1, full);
    } else {
      CopyRecord record;
      std::memcpy(&record, work.record.data(), sizeof record);
      append(l, work.kind, -1, record);
    }
    release(l, work.internal);
  }
}

void start(Library& l) {
  if (l.started) return;
  l.started = true;
  std::thread(deliver_forever).detach();
  std::thread(complete_forever).detach();
}

void configure(Configure tool, uint32_t priority) {
  ClientId client{sizeof client, nullptr, priority};
  if (ToolConfiguration* const configuration = tool(10001, "1.0.1", priority, &client))
    configuration->initialize([](ClientId) {}, configuration->data);
}

}  // namespace

EXPORT Status rocprofiler_get_version(uint32_t* major, uint32_t* minor, uint32_t* patch) {
  const char* const text = std::getenv("FAKE_ROCPROFILER_VERSION");
  *major = 1, *minor = *patch = 0;
  if (text != nullptr) std::sscanf(text, "%u.%u", major, minor);
  return status::success;
}
EXPORT Status rocprofiler_is_initialized(int* status) {
  *status = library().initialized;
  return status::success;
}
EXPORT Status rocprofiler_force_configure(Configure tool) {
  MAY_FAIL();
  Library& l = library();
  if (l.initialized != 0) return status::configuration_locked;
  l.initialized = -1;
  configure(tool, 0);
  std::string libraries =
      std::getenv("ROCP_TOOL_LIBRARIES") != nullptr ? std::getenv("ROCP_TOOL_LIBRARIES") : "";
  for (size_t at = 0; at < libraries.size();) {
    const size_t end = std::min(libraries.find(':', at), libraries.size());
    void* const handle = ::dlopen(libraries.substr(at, end - at).c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr)
      if (void* const found = ::dlsym(handle, "rocprofiler_configure"))
        configure(reinterpret_cast<Configure>(found), 1);
    at = end + 1;
  }
  l.initialized = 1;
  return status::success;
}
EXPORT Status rocprofiler_create_context(Handle* context) {
  ONLY_WHILE_CONFIGURED();
  Library& l = library();
  *context = 100 + l.contexts.size();
  l.contexts[*context];
  return status::success;
}
EXPORT Status rocprofiler_start_context(Handle context) {
  MAY_FAIL();
  Library& l = library();
  const std::lock_guard<std::mutex> hold(l.lock);
  start(l);
  l.contexts.at(context).active = true;
  return status::success;
}
EXPORT Status rocprofiler_stop_context(Handle context) {
  Library& l = library();
  const std::lock_guard<std::mutex> hold(l.lock);
  l.contexts.at(context).active = false;
  return status::success;
}
EXPORT Status rocprofiler_context_is_valid(Handle context, int* status) {
  *status = library().contexts.count(context) != 0 ? 1 : 0;
  return status::success;
}
EXPORT Status rocprofiler_create_buffer(Handle, size_t size, size_t watermark, uint32_t,
                                        BufferCallback callback, void*, Handle* handle) {
  ONLY_WHILE_CONFIGURED();
  Library& l = library();
  *handle = 500 + l.buffers.size();
  Buffer& buffer = l.buffers[*handle];
  buffer.callback = callback;
  buffer.size = size;
  buffer.watermark = std::getenv("FAKE_ROCPROFILER_WATERMARK") != nullptr ? 400 : watermark;
  return status::success;
}
EXPORT Status rocprofiler_flush_buffer(Handle handle) {
  MAY_FAIL();
  Library& l = library();
  std::unique_lock<std::mutex> hold(l.lock);
  hand_over(l, handle, l.buffers.at(handle));
  l.changed.wait(hold, [&] { return l.full.empty() && l.delivering == 0; });
  return status::success;
}
EXPORT Status rocprofiler_configure_buffer_tracing_service(Handle context, uint32_t kind,
                                                           const int32_t* operations, size_t count,
                                                           Handle buffer) {
  ONLY_WHILE_CONFIGURED();
  Context& c = library().contexts.at(context);
  c.buffer = buffer;
  if (operations == nullptr) c.operations.insert({kind, -1});
  for (size_t i = 0; i < count; ++i) c.operations.insert({kind, operations[i]});
  return status::success;
}
EXPORT Status rocprofiler_configure_callback_tracing_service(Handle context, uint32_t kind,
                                                             const int32_t*, size_t,
                                                             CallbackTracing callback, void*) {
  ONLY_WHILE_CONFIGURED();
  if (kind == kCallbackCodeObject) library().contexts.at(context).callback = callback;
  return status::success;
}
EXPORT Status rocprofiler_configure_external_correlation_id_request_service(
    Handle context, const uint32_t* kinds, size_t, ExternalRequest callback, void*) {
  ONLY_WHILE_CONFIGURED();
  if (*kinds == kRequestHipRuntimeApi) library().contexts.at(context).external = callback;
  return status::success;
}
EXPORT Status rocprofiler_iterate_buffer_tracing_kind_operations(uint32_t kind, EachOperation each,
                                                                 void* data) {
  for (int32_t i = 0; i < static_cast<int32_t>(std::size(kCalls)); ++i) each(kind, i, data);
  return status::success;
}
EXPORT Status rocprofiler_query_buffer_tracing_kind_operation_name(uint32_t, int32_t operation,
                                                                   const char** name, uint64_t*) {
  *name = kCalls[operation];
  return status::success;
}
EXPORT Status rocprofiler_query_available_agents(uint32_t version, EachAgent each, size_t,
                                                 void* data) {
  Agent agents[1 + kGpus] = {};
  const void* pointers[1 + kGpus];
  for (int i = 0; i <= kGpus; ++i) {
    agents[i].size = sizeof(Agent) + 24;  // the genuine one goes on
    agents[i].id = kCpu + static_cast<Handle>(i);
    agents[i].type = i == 0 ? 1 : kAgentGpu;
    agents[i].device_index = i == 0 ? 0 : i - 1;
    agents[i].product_name = "AMD Fake MI300";
    agents[i].gfx_version = 90402;
    agents[i].wavefront_size = 64;
    agents[i].compute_units = 304;
    pointers[i] = &agents[i];
  }
  return each(version, pointers, 1 + kGpus, data);
}
EXPORT Status rocprofiler_get_timestamp(uint64_t* ns) {
  *ns = now_ns();
  return status::success;
}
EXPORT const char* rocprofiler_get_status_string(Status) {
  return "a failure of the double";
}

// ---- the program

namespace {

// A call of HIP's runtime around `body`, which starts work with the call's correlation.
template <class Body>
void call(int32_t operation, Body body) {
  Library& l = library();
  std::unique_lock<std::mutex> hold(l.lock);
  CallRecord record{};
  record.size = sizeof record;
  record.kind = buffered::hip_runtime_api;
  record.operation = operation;
  record.thread_id = static_cast<uint64_t>(::syscall(SYS_gettid));
  record.correlation.internal = ++l.last_internal;
  l.references[record.correlation.internal] = 1;
  bool traced = false;
  for (auto& [handle, context] : l.contexts) {
    if (!context.traces(buffered::hip_runtime_api, operation)) continue;
    traced = true;
    if (context.external != nullptr)
      context.external(record.thread_id, handle, kRequestHipRuntimeApi, operation,
                       record.correlation.internal, &record.correlation.external, nullptr);
  }
  record.start = now_ns();
  body(l, record.correlation.internal);
  record.end = now_ns();
  if (traced) append(l, buffered::hip_runtime_api, operation, record);
  release(l, record.correlation.internal);
}

template <class Record>
void run(Library& l, Record& record, int device, uint64_t queue, uint64_t ns, uint64_t internal) {
  if (std::getenv("FAKE_ROCPROFILER_LOSE") != nullptr) {
    ++l.references[internal];
    return;
  }
  uint64_t& free_at = l.queue_free_at[{device, queue}];
  record.size = sizeof record;
  record.correlation.internal = internal;
  record.start = std::max(free_at, now_ns() + 1000);
  record.end = free_at = record.start + ns;
  ++l.references[internal];
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&record);
  l.running.push_back(
      {std::chrono::steady_clock::now() + std::chrono::nanoseconds(record.end - now_ns()), internal,
       record.kind, std::vector<uint8_t>(bytes, bytes + sizeof record)});
  l.changed.notify_all();
}

void launch(Library& l, const char* name, int device, uint64_t queue, uint64_t ns,
            uint64_t internal) {
  KernelRecord record{};
  record.kind = buffered::kernel_dispatch;
  record.operation = 2;
  record.agent = kFirstGpu + static_cast<Handle>(device);
  record.queue = queue;
  record.kernel_id = l.kernels[name];
  record.group_segment_bytes = 512;
  record.workgroup = {256, 1, 1};
  record.grid = {64 * 256, 2, 1};
  run(l, record, device, queue, ns, internal);
}

}  // namespace

// Loads a code object with a kernel, whose symbol is name.
EXPORT void fake_load_kernel(const char* name) {
  Library& l = library();
  const uint64_t id = l.kernels.emplace(name, 7000 + l.kernels.size()).first->second;
  KernelSymbol symbol{};
  symbol.size = sizeof symbol;
  symbol.kernel_id = id;
  symbol.name = name;
  CallbackRecord record{};
  record.kind = kCallbackCodeObject;
  record.operation = kKernelSymbolRegister;
  record.phase = kPhaseLoad;
  record.payload = &symbol;
  for (auto& [handle, context] : l.contexts)
    if (context.active && context.callback != nullptr) context.callback(record, nullptr, nullptr);
}
EXPORT void fake_launch(const char* name, int device, uint64_t queue, uint64_t ns) {
  call(1, [&](Library& l, uint64_t internal) { launch(l, name, device, queue, ns, internal); });
}
EXPORT void fake_graph_launch(const char* name, int kernels, uint64_t ns) {
  call(3, [&](Library& l, uint64_t internal) {
    for (int i = 0; i < kernels; ++i) launch(l, name, 0, 3, ns, internal);
  });
}
// direction: rocprofiler_memory_copy_operation_t.
EXPORT void fake_copy(int direction, uint64_t bytes, uint64_t ns) {
  call(2, [&](Library& l, uint64_t internal) {
    CopyRecord record{};
    record.kind = buffered::memory_copy;
    record.operation = direction;
    record.source = direction == copy::host_to_device ? kCpu : kFirstGpu;
    record.destination = direction == copy::device_to_host ? kCpu : kFirstGpu + 1;
    record.bytes = bytes;
    run(l, record, 0, 99, ns, internal);
  });
}
EXPORT void fake_quiet_call() {
  call(0, [](Library&, uint64_t) {});
}
EXPORT int fake_active_contexts() {
  Library& l = library();
  const std::lock_guard<std::mutex> hold(l.lock);
  return static_cast<int>(std::count_if(l.contexts.begin(), l.contexts.end(),
                                        [](const auto& each) { return each.second.active; }));
}
