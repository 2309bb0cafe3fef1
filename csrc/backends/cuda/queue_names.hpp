// SPDX-License-Identifier: Apache-2.0
// QueueNames: the names that the program has given through NVTX to streams, contexts and devices,
// put into the names of tracks: "stream 7 (decode)".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/session/activities.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {

// A copy of the names that exist when it is made. There are none unless NVTX has loaded fastprof's
// injection library. Any thread.
class QueueNames {
 public:
  // problems: receives a text if the program has named more objects than are kept.
  explicit QueueNames(std::vector<std::string>& problems);

  // Appends the program's names to stream tracks. A stream's context comes from the arguments of
  // its first work.
  void apply(Activities& activities) const;

  // The name of a stream by handle, as in " (decode)"; empty if it has none.
  std::string of_handle(int32_t device, const void* stream) const;

 private:
  std::string text_of(const std::string* stream, const std::string* context, int32_t device) const;

  using ByNumber = std::map<std::pair<int32_t, int64_t>, std::string>;
  std::map<int32_t, std::string> devices_;
  ByNumber contexts_, streams_;  // by device and CUPTI's number
  std::map<const void*, std::string> stream_handles_;
};

}  // namespace devices
FASTPROF_NAMESPACE_END
