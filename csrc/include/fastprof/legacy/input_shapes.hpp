// SPDX-License-Identifier: Apache-2.0
// Extracts data from a RecordFunction's inputs for the exclusive profiler: shapes, and the range
// that produced each tensor.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/nvtx_text.hpp"
#include "fastprof/primitives/span.hpp"
#include "fastprof/primitives/value_read.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns one shape per input, [] for an input that is not a tensor. flatten_lists: a list
// contributes the shape of each of its tensors, as in the NVTX text, or one [] if it has none;
// otherwise each list contributes one [].
inline std::vector<std::vector<int64_t>> input_shapes(Span<const Value> inputs,
                                                      bool flatten_lists = false) {
  std::vector<std::vector<int64_t>> shapes;
  shapes.reserve(inputs.size());
  const auto add = [&shapes](const Value& tensor) {
    const Span<const int64_t> shape = tensor.as_tensor().shape;
    shapes.emplace_back(shape.begin(), shape.end());
  };
  for (const Value& input : inputs) {
    const size_t before = shapes.size();
    if (input.is_tensor()) {
      add(input);
    } else if (flatten_lists && input.type() == ValueType::list) {
      for (const Value& item : input.as_list())
        if (item.is_tensor()) add(item);
    }
    if (shapes.size() == before) shapes.emplace_back();
  }
  return shapes;
}

// Maps tensor addresses to the range that last returned a tensor there. Any thread.
class TensorProducers {
 public:
  // Records that range `handle` produced the tensors among `outputs`.
  void produced(uint64_t handle, Span<const Value> outputs) {
    const std::lock_guard<std::mutex> guard(lock_);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].is_tensor()) continue;
      const void* pointer = outputs[i].as_tensor().pointer;
      if (pointer != nullptr) producers_[pointer] = {handle, static_cast<int64_t>(i)};
    }
  }

  // Forgets the tensor at `pointer`, whose memory was freed.
  void freed(const void* pointer) {
    const std::lock_guard<std::mutex> guard(lock_);
    producers_.erase(pointer);
  }

  // Returns one producer per input, ordered and flattened as in input_shapes(inputs, true). {0, -1}
  // if the input is not a tensor or its producer is unknown.
  std::vector<ProducerOp> of_inputs(Span<const Value> inputs) const {
    std::vector<ProducerOp> ops;
    ops.reserve(inputs.size());
    const std::lock_guard<std::mutex> guard(lock_);
    for (const Value& input : inputs) {
      const size_t before = ops.size();
      if (input.is_tensor()) {
        ops.push_back(find(input));
      } else if (input.type() == ValueType::list) {
        for (const Value& item : input.as_list())
          if (item.is_tensor()) ops.push_back(find(item));
      }
      if (ops.size() == before) ops.emplace_back();
    }
    return ops;
  }

 private:
  ProducerOp find(const Value& tensor) const {
    const auto found = producers_.find(tensor.as_tensor().pointer);
    return found != producers_.end() ? found->second : ProducerOp();
  }

  mutable std::mutex lock_;
  std::unordered_map<const void*, ProducerOp> producers_;
};

FASTPROF_NAMESPACE_END
