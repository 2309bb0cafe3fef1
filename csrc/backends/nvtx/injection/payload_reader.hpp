// SPDX-License-Identifier: Apache-2.0
// Reads the payloads of an event by their schemas, into values that become arguments of a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/nvtx/injection/payload_scalars.hpp"
#include "backends/nvtx/payload_abi.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {

struct ReadPayloads {
  std::string message;  // of an entry that is the event's message; else empty
  std::vector<ReadValue> values;
};

// Reads `count` payloads. Numbers keep their type; texts, enumerations, arrays and unions become
// text. Reads nothing beyond the size of a payload, and of arrays the first 64 elements. Entries
// that cannot be read say so. domain: identity, for schemas. May throw std::bad_alloc. Any thread.
ReadPayloads read_payloads(const void* domain, const PayloadData* payloads, size_t count);

}  // namespace nvtx
FASTPROF_NAMESPACE_END
