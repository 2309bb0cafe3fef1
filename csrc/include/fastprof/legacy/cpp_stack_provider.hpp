// SPDX-License-Identifier: Apache-2.0
// cpp_stack_provider: native frames for with_stack of the exclusive profiler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/stack_provider.hpp"
#include "fastprof/range_detail/detail_options.hpp"
#include "fastprof/range_detail/symbolize.hpp"
#include "fastprof/range_detail/unwind_cache.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace legacy_detail {

// Made at first use, never destroyed: threads may record while the process exits.
inline Symbolizer& stack_symbols() {
  static Symbolizer& symbols = *new Symbolizer;
  return symbols;
}

}  // namespace legacy_detail

// A StackProvider: the calling thread's native frames ("function+0x12 (libx.so)"), at most
// kMaxCppFrames, innermost first; the first ones are those of RecordFunction and of this profiler.
// The first frame of a module reads its symbols from its file; later ones take about 1 us each.
//   fastprof::set_stack_provider(&fastprof::cpp_stack_provider);
inline void cpp_stack_provider(std::vector<std::string>* frames) {
  static thread_local const StackBounds bounds = thread_stack_bounds();
  uint64_t addresses[kMaxCppFrames];
  const CppStack stack = capture_cpp_stack(addresses, kMaxCppFrames, __builtin_return_address(0),
                                           StackMethod::unwind_tables, bounds);
  frames->reserve(frames->size() + stack.count);
  for (uint32_t i = 0; i < stack.count; ++i)
    frames->push_back(legacy_detail::stack_symbols().return_address(addresses[i]).text());
}

FASTPROF_NAMESPACE_END
