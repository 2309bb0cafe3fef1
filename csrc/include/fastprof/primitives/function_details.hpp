// SPDX-License-Identifier: Apache-2.0
// FunctionDetails: the optional data of a RecordFunction (all but its name), passed to the
// recorder.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/span.hpp"
#include "fastprof/primitives/value.hpp"

FASTPROF_NAMESPACE_BEGIN

// Read by the leader, possibly of another version: the layout is ABI, append only, and `size_bytes`
// is the size the caller knows. All pointers are borrowed for the duration of the call.
struct FunctionDetails {
  uint64_t size_bytes = sizeof(FunctionDetails);
  Span<const Value> inputs;             // empty if no session records inputs
  Span<const NamedValue> kwinputs;      // likewise
  int64_t sequence_number = -1;         // -1: none
  uint64_t forward_thread_id = 0;       // current_thread_id() of the forward thread; 0: none
  uint64_t handle = 0;                  // 0: none
  int64_t node_id = -1;                 // -1: not set for this call
  const char* overload_name = nullptr;  // NUL-terminated; null or empty: none
  const uint64_t* args = nullptr;       // the site's argument words, or null
  const void* caller = nullptr;         // return address at which a native stack starts
};

FASTPROF_NAMESPACE_END
