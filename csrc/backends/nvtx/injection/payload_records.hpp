// SPDX-License-Identifier: Apache-2.0
// Records events with payloads: each value becomes an argument, after domain, category and color.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/annotations/annotation_sites.hpp"
#include "backends/nvtx/payload_abi.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {

// The payloads of one event.
struct Payloads {
  const PayloadData* data;
  size_t count;
};

// As annotations::push_recorded(), start_recorded() and mark_recorded(), with payloads. A message
// in the payloads replaces `name`. mask: annotations::recording_mask(), not 0. domain: handle.
// Never throws: without memory, the event is recorded without the values.
int push_with_payloads(uint32_t mask, void* domain, std::string_view name,
                       const annotations::Attributes& attributes, Payloads payloads) noexcept;
uint64_t start_with_payloads(uint32_t mask, void* domain, std::string_view name,
                             const annotations::Attributes& attributes, Payloads payloads) noexcept;
void mark_with_payloads(void* domain, std::string_view name,
                        const annotations::Attributes& attributes, Payloads payloads) noexcept;
// Registers a handler for forked children, which renews the lock of the prototype sites and, if it
// was held, their table. Later calls do nothing. Any thread.
void watch_forks_of_prototypes() noexcept;

}  // namespace nvtx
FASTPROF_NAMESPACE_END
