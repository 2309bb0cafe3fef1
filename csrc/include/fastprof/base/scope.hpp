// SPDX-License-Identifier: Apache-2.0
// Classification of recorded events: RecordScope (PyTorch's) and category bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>  // std::hash, at a fraction of <functional>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Origin of a RecordFunction. The numbers are PyTorch's and are API.
enum class RecordScope : uint8_t {
  FUNCTION = 0,
  BACKWARD_FUNCTION = 1,
  TORCHSCRIPT_FUNCTION = 2,
  KERNEL_FUNCTION_DTYPE = 3,
  CUSTOM_CLASS = 4,
  BUILD_FEATURE = 5,
  LITE_INTERPRETER = 6,
  USER_SCOPE = 7,
  STATIC_RUNTIME_OP = 8,
  STATIC_RUNTIME_MODEL = 9,
  NUM_SCOPES = 10,
};

constexpr size_t kNumRecordScopes = static_cast<size_t>(RecordScope::NUM_SCOPES);

// Category bits. A session records the sites whose mask intersects its own. Bits 24 to 31 are
// reserved for the recorder.
namespace category {
constexpr uint32_t user = 1u << 0;            // ranges written by users
constexpr uint32_t op = 1u << 1;              // operators (RecordScope::FUNCTION and the like)
constexpr uint32_t memory = 1u << 2;          // allocations, frees, failed allocations
constexpr uint32_t counter = 1u << 3;         // counters
constexpr uint32_t mark = 1u << 4;            // instants
constexpr uint32_t flow = 1u << 5;            // flow arrows
constexpr uint32_t async = 1u << 6;           // async ranges
constexpr uint32_t python_call = 1u << 7;     // traced Python calls
constexpr uint32_t runtime = 1u << 8;         // host-side calls of a device runtime
constexpr uint32_t device = 1u << 9;          // activities of a device
constexpr uint32_t task = 1u << 10;           // which task a thread runs
constexpr uint32_t python_module = 1u << 11;  // calls of torch.nn.Module objects
constexpr uint32_t custom0 = 1u << 16;        // bits 16 to 23 are for the program's own categories
constexpr uint32_t all = (1u << 24) - 1;
}  // namespace category

FASTPROF_NAMESPACE_END

template <>
struct std::hash<fastprof::RecordScope> {
  size_t operator()(fastprof::RecordScope scope) const noexcept {
    return static_cast<size_t>(scope);
  }
};
