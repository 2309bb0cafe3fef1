// SPDX-License-Identifier: Apache-2.0
// The rest of fake_cuda.cpp, which includes this at its end: libcupti is a tool of NVTX's, too. If
// NVTX_INJECTION64_PATH names it, ranges and marks of the program become records of markers, one
// for each end of a range.
#pragma once

#include <string>

#include "backends/nvtx/nvtx_abi.hpp"

namespace {

namespace nvtx = fastprof::nvtx;

thread_local std::vector<uint32_t> t_pushed;  // ids of open ranges

uint32_t next_marker() {
  static std::mutex lock;
  static uint32_t last = 0;
  std::lock_guard<std::mutex> hold(lock);
  return ++last;
}

void append_marker(uint32_t flags, uint32_t id, const char* name, const char* domain = nullptr) {
  Library& l = library();
  CUpti_ActivityMarker2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MARKER;
  record.flags = static_cast<CUpti_ActivityFlag>(flags);
  record.timestamp = now(l);
  record.id = id;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.processId = static_cast<uint32_t>(::getpid());
  record.objectId.pt.threadId = thread_number(l);
  record.name = name == nullptr ? nullptr : own_name(name);
  record.domain = domain;
  append(l, record);
}
void append_marker_data(uint32_t id, const nvtx::EventAttributes& event) {
  CUpti_ActivityMarkerData record{};
  record.kind = CUPTI_ACTIVITY_KIND_MARKER_DATA;
  record.flags = event.color_type == nvtx::ColorType::argb ? CUPTI_ACTIVITY_FLAG_MARKER_COLOR_ARGB
                                                           : CUPTI_ACTIVITY_FLAG_MARKER_COLOR_NONE;
  record.id = id;
  record.color = event.color;
  record.category = event.category;
  record.payloadKind =
      event.payload_type == nvtx::PayloadType::float64  ? CUPTI_METRIC_VALUE_KIND_DOUBLE
      : event.payload_type == nvtx::PayloadType::uint64 ? CUPTI_METRIC_VALUE_KIND_UINT64
                                                        : CUPTI_METRIC_VALUE_KIND_INT64;
  record.payload.metricValueUint64 = event.payload.uint64;
  append(library(), record);
}

constexpr uint32_t kInstant = CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS,
                   kStart = CUPTI_ACTIVITY_FLAG_MARKER_START, kEnd = CUPTI_ACTIVITY_FLAG_MARKER_END;

int push(const char* name) {
  t_pushed.push_back(next_marker());
  append_marker(kStart, t_pushed.back(), name);
  return static_cast<int>(t_pushed.size()) - 1;
}
int pop() {
  if (t_pushed.empty()) return -1;
  append_marker(kEnd, t_pushed.back(), nullptr);
  t_pushed.pop_back();
  return static_cast<int>(t_pushed.size());
}
int push_event(void* domain, const nvtx::EventAttributes* event) {
  t_pushed.push_back(next_marker());
  append_marker(kStart, t_pushed.back(), event->message.ascii, static_cast<const char*>(domain));
  append_marker_data(t_pushed.back(), *event);
  return static_cast<int>(t_pushed.size()) - 1;
}
int pop_in(void*) {
  return pop();
}
uint64_t start(const char* name) {
  const uint32_t id = next_marker();
  append_marker(kStart, id, name);
  return id;
}
void end(uint64_t id) {
  append_marker(kEnd, static_cast<uint32_t>(id), nullptr);
}
void mark(const char* name) {
  append_marker(kInstant, next_marker(), name);
}
void* create_domain(const char* name) {
  return const_cast<char*>(own_name(name));
}

}  // namespace

// What a program's nvtxRangePushA() and nvtxRangePop() do, for one without NVTX.
EXPORT void fake_push(const char* name) {
  push(name);
}
EXPORT void fake_pop() {
  pop();
}

EXPORT int InitializeInjectionNvtx2(nvtx::GetExportTable get_export_table) {
  const auto* callbacks =
      static_cast<const nvtx::CallbacksTable*>(get_export_table(nvtx::ExportTable::callbacks));
  const auto replace = [&](nvtx::Module module, uint32_t id, auto* function) {
    nvtx::FunctionTable table = nullptr;
    unsigned count = 0;
    if (callbacks->get_module_function_table(module, &table, &count) != 0 && id < count)
      *table[id] = reinterpret_cast<nvtx::FunctionPointer>(function);
  };
  using nvtx::Module;
  replace(Module::core, nvtx::core::RangePushA, &push);
  replace(Module::core, nvtx::core::RangePop, &pop);
  replace(Module::core, nvtx::core::RangeStartA, &start);
  replace(Module::core, nvtx::core::RangeEnd, &end);
  replace(Module::core, nvtx::core::MarkA, &mark);
  replace(Module::core2, nvtx::core2::DomainRangePushEx, &push_event);
  replace(Module::core2, nvtx::core2::DomainRangePop, &pop_in);
  replace(Module::core2, nvtx::core2::DomainCreateA, &create_domain);
  return nvtx::kSuccess;
}
