// SPDX-License-Identifier: Apache-2.0
// Schemas and enumerations that a program has registered for its payloads. Never freed: programs
// keep their ids until the process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/nvtx/payload_abi.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {

// Values of an enumeration. Flags are combined.
struct PayloadEnum {
  struct Value {
    std::string name;
    uint64_t value;
    bool is_flag;
  };
  std::vector<Value> values;
  size_t size = 4;

  // Returns the name of a value: "red", "read|write"; the number if no name fits.
  std::string text_of(uint64_t value) const;
};

// One entry of a schema, with copies of its texts.
struct PayloadEntry {
  uint64_t flags = 0;
  uint64_t type = 0;
  std::string name;
  uint64_t detail = 0;
  uint64_t offset = 0;
};

struct PayloadSchema {
  std::string name;
  uint64_t type = schema_type::fixed;
  std::vector<PayloadEntry> entries;
  size_t static_size = 0;  // 0: not given
  size_t alignment = 0;    // of packed structs; 0: natural
};

// The type with a registered id; both null: unknown. Ids of static schemas are unique in a domain,
// others in the process.
struct RegisteredType {
  const PayloadSchema* schema = nullptr;
  const PayloadEnum* enumeration = nullptr;
};

// Registers a schema or enumeration, copying the description, and returns its id; 0 if the
// description is incomplete or memory is exhausted. domain: identity. Any thread.
uint64_t register_schema(const void* domain, const SchemaAttributes* given) noexcept;
uint64_t register_enum(const void* domain, const EnumAttributes* given) noexcept;
// Any thread.
RegisteredType find_payload_type(const void* domain, uint64_t id) noexcept;
// Registers a handler for forked children, which renews the lock of the types and, if it was held,
// their table. Later calls do nothing. Any thread.
void watch_forks_of_schemas() noexcept;

}  // namespace nvtx
FASTPROF_NAMESPACE_END
