// SPDX-License-Identifier: Apache-2.0
// Formats the text of NVTX ranges as PyTorch does, for tools that parse it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// The range that produced an input, and the index among its outputs. {0, -1}: unknown, or the input
// is not a tensor.
struct ProducerOp {
  uint64_t handle = 0;
  int64_t output_nr = -1;

  friend bool operator==(const ProducerOp& a, const ProducerOp& b) noexcept {
    return a.handle == b.handle && a.output_nr == b.output_nr;
  }
};

// Returns `name`, followed by ", seq = N" if sequence_nr >= 0, ", op_id = M" if op_id > 0, ", sizes
// = [[2, 3], []]" if shapes is not empty ([] for an input that is not a tensor), and ",
// input_op_ids = [(M,0), (0,-1)]" if input_op_ids is not empty.
inline std::string nvtx_range_text(std::string_view name, int64_t sequence_nr, uint64_t op_id = 0,
                                   const std::vector<std::vector<int64_t>>& shapes = {},
                                   const std::vector<ProducerOp>& input_op_ids = {}) {
  std::string text(name);
  if (sequence_nr >= 0) text.append(", seq = ").append(std::to_string(sequence_nr));
  if (op_id > 0) text.append(", op_id = ").append(std::to_string(op_id));
  if (!shapes.empty()) {
    text.append(", sizes = [");
    for (size_t i = 0; i < shapes.size(); ++i) {
      text.append(i == 0 ? "[" : ", [");
      for (size_t d = 0; d < shapes[i].size(); ++d) {
        if (d != 0) text.append(", ");
        text.append(std::to_string(shapes[i][d]));
      }
      text.push_back(']');
    }
    text.push_back(']');
  }
  if (!input_op_ids.empty()) {
    text.append(", input_op_ids = [");
    for (size_t i = 0; i < input_op_ids.size(); ++i) {
      text.append(i == 0 ? "(" : ", (").append(std::to_string(input_op_ids[i].handle));
      text.append(",").append(std::to_string(input_op_ids[i].output_nr)).append(")");
    }
    text.push_back(']');
  }
  return text;
}

FASTPROF_NAMESPACE_END
