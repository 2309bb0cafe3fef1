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

  // "red", "read|write", or the number if no name fits.
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

// What an id stands for; both null: nothing is known of it. Ids of static schemas are unique in a
// domain, others in the process.
struct RegisteredType {
  const PayloadSchema* schema = nullptr;
  const PayloadEnum* enumeration = nullptr;
};

// Registers what the program describes, and returns its id; 0 if that is incomplete or memory is
// exhausted. domain: identity. Any thread.
uint64_t register_schema(const void* domain, const SchemaAttributes* given) noexcept;
uint64_t register_enum(const void* domain, const EnumAttributes* given) noexcept;
// Any thread.
RegisteredType find_payload_type(const void* domain, uint64_t id) noexcept;
// Makes the lock of schemas usable in a forked child.
void renew_schemas_in_child() noexcept;

}  // namespace nvtx
FASTPROF_NAMESPACE_END
