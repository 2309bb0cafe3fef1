// SPDX-License-Identifier: Apache-2.0
// Reads the payloads of an event by their schemas, as values that become arguments of a record.
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
  std::string message;  // from an entry flagged as the event's message; else empty
  std::vector<ReadValue> values;
};

// Reads `count` payloads, at most 64. Numbers keep their type; texts, enumerations, arrays and
// unions become text. Reads nothing beyond the size of a payload, and of arrays the first 64
// elements. An entry that cannot be read has the text "<not read>". domain: identity, to look up
// schemas. May throw std::bad_alloc. Any thread.
ReadPayloads read_payloads(const void* domain, const PayloadData* payloads, size_t count);

}  // namespace nvtx
FASTPROF_NAMESPACE_END
