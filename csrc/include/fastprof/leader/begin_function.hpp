// SPDX-License-Identifier: Apache-2.0
// Begins the range of a RecordFunction that has more than a name: ids, overload name and inputs
// become detail blocks of the record.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/leader/input_values.hpp"
#include "fastprof/primitives/function_details.hpp"
#include "fastprof/recorder/hot_path/detailed_range.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Maximum words for the inputs of one RecordFunction: enough for 200 tensors of four dimensions.
constexpr uint32_t kMaxFunctionInputWords = 1000;

// Leader function, see RecorderFunctions::begin_function. `details` points to a FunctionDetails.
FASTPROF_COLD inline Slot* leader_begin_function(State* s, const Site* site, const void* details,
                                                 uint64_t* begin) noexcept {
  const auto& given = *static_cast<const FunctionDetails*>(details);
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, site->mask)) return nullptr;
  uint64_t blocks[kMaxFunctionInputWords + 16];
  uint32_t used = 0;
  const auto open_block = [&](DetailType type, uint32_t words) {
    blocks[used++] = detail_block_word(type, words);
  };
  const bool has_node = given.node_id >= 0;
  const bool has_ids = has_node || given.forward_thread_id != 0 || given.handle != 0;
  if (has_ids || given.sequence_number >= 0) {
    open_block(DetailType::op, has_node ? 4 : has_ids ? 3 : 1);
    blocks[used++] = static_cast<uint64_t>(given.sequence_number);
    if (has_ids) {
      blocks[used++] = given.forward_thread_id;  // logical thread ids are track ids
      blocks[used++] = given.handle;
    }
    if (has_node) blocks[used++] = static_cast<uint64_t>(given.node_id);
  }
  if (given.overload_name != nullptr && given.overload_name[0] != '\0') {
    open_block(DetailType::overload, 1);
    blocks[used++] = reinterpret_cast<uintptr_t>(intern_string(given.overload_name));
  }
  if (!given.inputs.empty() || !given.kwinputs.empty()) {
    const uint32_t words = encode_input_values(blocks + used + 1, kMaxFunctionInputWords,
                                               given.inputs, given.kwinputs);
    open_block(DetailType::op_inputs, words);
    used += words;
  }
  const OpenRange open = begin_detailed(s, block, site, given.args, blocks, used, given.caller);
  *begin = open.begin;
  return open.slot;
}

FASTPROF_NAMESPACE_END
