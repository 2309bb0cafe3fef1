// SPDX-License-Identifier: Apache-2.0
// RecordReports: reports rocprofiler-sdk's records to the sink of a collection, in Kineto's names.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "backends/rocm/rocprofiler_client.hpp"
#include "fastprof/device_plugin.h"

FASTPROF_NAMESPACE_BEGIN
namespace rocm {

// The recorder's clock and rocprofiler-sdk's at one time.
struct Instant {
  uint64_t ticks, ns;
};

// Not thread-safe. Batches may be added in any order.
class RecordReports {
 public:
  // begin: of the collection; what ended before is left out, since its records may come later.
  // ticks_per_ns: of the recorder's clock, in ns of rocprofiler-sdk's.
  RecordReports(RocprofilerClient& client, const fastprof_activity_sink& sink, Instant begin,
                double ticks_per_ns)
      : client_(client), sink_(sink), begin_(begin), ticks_per_ns_(ticks_per_ns) {}

  void add(const Batch& batch);

 private:
  void add_call(const CallRecord& record);
  void add_kernel(const KernelRecord& record);
  void add_copy(const CopyRecord& record);
  void add_row(uint64_t begin, uint64_t end, uint64_t correlation, uint32_t kind, uint32_t place,
               uint32_t text, uint64_t argument);
  uint32_t queue_of(int32_t device, uint64_t queue);
  uint32_t thread_of(uint64_t thread_id);
  template <class Name>
  uint32_t kind_of(uint32_t type, uint64_t number, const char* argument, Name name);
  uint32_t launch_text(const KernelRecord& record);

  RocprofilerClient& client_;
  const fastprof_activity_sink& sink_;
  const Instant begin_;
  const double ticks_per_ns_;
  std::map<std::pair<int32_t, uint64_t>, uint32_t>
      places_;  // device (-1: threads), queue or thread
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> kinds_;  // type; operation or kernel
  std::map<std::array<uint64_t, 4>, uint32_t> launches_;
  std::map<int32_t, uint32_t> copy_texts_;
};

}  // namespace rocm
FASTPROF_NAMESPACE_END
