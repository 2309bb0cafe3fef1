// SPDX-License-Identifier: Apache-2.0
// Resolves the native stacks of a capture to names, using the modules loaded in this process.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>

#include "fastprof/capture/capture.hpp"
#include "fastprof/export/details.hpp"
#include "fastprof/payload/native_stack/symbolize.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns the function that names this capture's frames ("function+0x12 (libx.so)"), for the
// options of the trace writers. Empty if another process made the capture, because its addresses
// are not valid here. No file is read until the first frame is named.
inline FrameName capture_frame_name(const Capture& capture) {
  if (capture.pid != static_cast<int64_t>(::getpid())) return {};
  auto symbols = std::make_shared<std::unique_ptr<Symbolizer>>();
  return [symbols](uint64_t return_address) {
    if (*symbols == nullptr) *symbols = std::make_unique<Symbolizer>();
    return (*symbols)->return_address(return_address).text();
  };
}

FASTPROF_NAMESPACE_END
