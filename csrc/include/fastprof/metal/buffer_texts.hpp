// SPDX-License-Identifier: Apache-2.0
// BufferTexts: names tensors and memory in lines and signposts, and numbers the buffers they lie
// in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "fastprof/base/config.hpp"
#include "fastprof/metal/options.hpp"
#include "fastprof/metal/texts.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// One end of a copy: memory, and the tensor in it if there is one.
struct CopyEnd {
  const void* address = nullptr;
  const TensorDescription* tensor = nullptr;  // decides where the memory lies, if given
  bool on_device = false;                     // for memory without a tensor

  bool lies_on_device() const noexcept {
    return tensor != nullptr ? tensor->device.type == DeviceType::MPS : on_device;
  }
};

// Thread rule: the caller holds the profiler's lock. `log`: bits of LogOptions; buffers have
// numbers with INCLUDE_BUFFER_ID only, in the order in which they were first described.
class BufferTexts {
 public:
  std::string of_kernel(std::string_view name, Span<const TensorDescription> tensors,
                        uint32_t log) {
    std::string text(name);
    for (size_t i = 0; i < tensors.size(); ++i)
      text += ":" + tensor_text(tensors[i], number(tensors[i], log));
    return text;
  }
  std::string of_copy(const CopyEnd& source, const CopyEnd& destination, uint32_t log) {
    const std::string from = of_end(source, log);
    return from + " --> " + of_end(destination, log);
  }

 private:
  std::string of_end(const CopyEnd& end, uint32_t log) {
    return end.tensor != nullptr ? tensor_text(*end.tensor, number(*end.tensor, log))
                                 : memory_text(end.address, end.on_device);
  }
  // 0: not numbered.
  uint64_t number(const TensorDescription& tensor, uint32_t log) {
    if ((log & INCLUDE_BUFFER_ID) == 0 || tensor.device.type != DeviceType::MPS) return 0;
    return numbers_.try_emplace(tensor.pointer, numbers_.size() + 1).first->second;
  }

  std::unordered_map<const void*, uint64_t> numbers_;
};

}  // namespace metal
FASTPROF_NAMESPACE_END
