// SPDX-License-Identifier: Apache-2.0
// Converts Perfetto's debug annotations, and UTF-8 strings, to JSON text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_proto {

// Appends a string as JSON; returns false, with incomplete output, if it is not valid UTF-8.
bool append_string(std::string& json, std::string_view text);

// The interned texts of a sequence that annotations refer to.
class InternedTexts {
 public:
  // Returns the JSON string of an interned name of an annotation or of a text; empty if unknown.
  virtual std::string_view annotation_name(uint64_t iid) const = 0;
  virtual std::string_view annotation_text(uint64_t iid) const = 0;

 protected:
  ~InternedTexts() = default;
};

// Appends the name (a JSON string) and the value of a DebugAnnotation as JSON. Returns false, with
// incomplete output, if the caller must read it because it is damaged or unusual: an unknown field,
// repeated fields, the older encoding of nested values, text that is not UTF-8 or not JSON.
bool append_annotation(std::string& name, std::string& value, std::string_view message,
                       const InternedTexts& texts, int depth = 0);

}  // namespace trace_proto
FASTPROF_NAMESPACE_END
