// SPDX-License-Identifier: Apache-2.0
// The types that NVTX's payload schemas predefine: numbers, characters, texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/nvtx/payload_abi.hpp"
#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {

// A value read from a payload. Its name and type depend only on the schema.
struct ReadValue {
  std::string name;  // of an entry of a nested schema: "outer.inner"
  ArgType type = ArgType::string;
  uint64_t word = 0;  // the bits of a number
  std::string text;   // if type is string
};

// Returns the value as text, numbers in decimal. May throw std::bad_alloc.
std::string text_of(const ReadValue& value);

// Reader of one predefined type.
struct Scalar {
  size_t size = 0;
  ReadValue (*read)(const uint8_t*) = nullptr;
  bool is_character = false, is_pointer = false;
};

// Returns the reader of a predefined type; size 0 if the type is unknown or no number or character.
Scalar scalar_of(uint64_t type) noexcept;

// Returns the bytes per character of a text type (entry_type::text, ...); 0 for any other type.
size_t character_size(uint64_t type) noexcept;

// Returns the text of up to `count` characters, or up to a zero, in UTF-8. May throw
// std::bad_alloc.
std::string text_at(const uint8_t* at, size_t count, size_t character_bytes);

}  // namespace nvtx
FASTPROF_NAMESPACE_END
