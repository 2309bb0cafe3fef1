// SPDX-License-Identifier: Apache-2.0
// cpp_stack_provider: native stack frames for the exclusive profiler's with_stack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/stack_provider.hpp"
#include "fastprof/payload/native_stack/symbolize.hpp"
#include "fastprof/payload/native_stack/unwind_cache.hpp"
#include "fastprof/recorder/state/detail_options.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace legacy_detail {

// Created at first use and never destroyed, because threads may record during process exit.
inline Symbolizer& stack_symbols() {
  static Symbolizer& symbols = *new Symbolizer;
  return symbols;
}

}  // namespace legacy_detail

// A StackProvider. Appends at most kMaxCppFrames native frames of the calling thread
// ("function+0x12 (libx.so)"), innermost first; the first ones belong to RecordFunction and this
// profiler. The first frame in a module reads the module's symbols from its file; later ones take
// about 1 us each. Any thread.
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
