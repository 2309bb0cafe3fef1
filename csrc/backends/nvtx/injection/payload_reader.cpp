// SPDX-License-Identifier: Apache-2.0
// Walks a payload by its schema: see payload_reader.hpp.
#include "backends/nvtx/injection/payload_reader.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/annotations/domain.hpp"
#include "backends/nvtx/injection/payload_schema.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {
namespace {

constexpr size_t kMostElements = 64, kMostNested = 8;
constexpr const char* kNotRead = "<not read>";

// Reads one payload, entry by entry. Values of a nested schema are named "outer.inner".
class Reader {
 public:
  Reader(const void* domain, ReadPayloads& out) : domain_(domain), out_(out) {}

  void read(const PayloadData& data) {
    if (data.payload == nullptr || data.schema == entry_type::referenced) return;
    const auto* base = static_cast<const uint8_t*>(data.payload);
    if (data.schema == entry_type::raw) {
      add("payload", raw(base, data.size));
      return;
    }
    const RegisteredType type = find_payload_type(domain_, data.schema);
    if (type.schema == nullptr) {  // a value of a predefined type, or of an enumeration
      PayloadEntry entry;
      entry.type = data.schema;
      entry.name = "payload";
      if (character_size(data.schema) != 0) {  // the payload is the text itself
        entry.flags = entry_flag::zero_terminated;
      }
      read_entry(entry, base, base, data.size);
      return;
    }
    const size_t size = data.size == SIZE_MAX && type.schema->static_size != 0
                            ? type.schema->static_size
                            : data.size;
    read_schema(*type.schema, base, size, "", 0);
  }

 private:
  // Size and alignment in bytes of one element of an entry's type; size 0: unknown or variable.
  struct Extent {
    size_t size = 0, alignment = 1;
  };
  Extent extent_of(uint64_t type, size_t depth) const {
    if (const Scalar known = scalar_of(type); known.size != 0)
      return {known.size, type == entry_type::long_double ? alignof(long double) : known.size};
    if (type == entry_type::registered_text) return {sizeof(void*), sizeof(void*)};
    const RegisteredType registered = find_payload_type(domain_, type);
    if (registered.enumeration != nullptr)
      return {registered.enumeration->size, registered.enumeration->size};
    if (registered.schema == nullptr || depth >= kMostNested) return {};
    return extent_of(*registered.schema, depth + 1);
  }
  Extent extent_of(const PayloadSchema& schema, size_t depth) const {
    Extent all;
    for (const PayloadEntry& entry : schema.entries) {
      const Extent one = extent_of_entry(entry, depth);
      if (one.size == 0) return {schema.static_size, 1};
      const size_t alignment = aligned_by(schema, one.alignment);
      size_t at = entry.offset;
      if (at == 0 && schema.type == schema_type::fixed)
        at = (all.size + alignment - 1) / alignment * alignment;
      all.size = std::max(all.size, at + one.size);
      all.alignment = std::max(all.alignment, alignment);
    }
    all.size = (all.size + all.alignment - 1) / all.alignment * all.alignment;
    if (schema.static_size != 0) all.size = schema.static_size;
    return all;
  }
  // Extent of an entry in the payload; size 0: variable.
  Extent extent_of_entry(const PayloadEntry& entry, size_t depth) const {
    constexpr uint64_t elsewhere =
        entry_flag::pointer | entry_flag::offset_from_base | entry_flag::offset_from_here;
    const uint64_t array = entry.flags & entry_flag::array_mask;
    if ((entry.flags & elsewhere) != 0 || is_text_pointer(entry))
      return {sizeof(void*), sizeof(void*)};
    if (const size_t character = character_size(entry.type); character != 0)
      return array == 0 || array == entry_flag::fixed_array
                 ? Extent{static_cast<size_t>(entry.detail) * character, character}
                 : Extent{0, character};
    Extent one = extent_of(entry.type, depth);
    if (array == entry_flag::fixed_array)
      one.size *= static_cast<size_t>(entry.detail);
    else if (array != 0)
      one.size = 0;
    return one;
  }
  static bool is_text_pointer(const PayloadEntry& entry) noexcept {
    return character_size(entry.type) != 0 && (entry.flags & entry_flag::array_mask) == 0 &&
           entry.detail == 0;
  }
  static size_t aligned_by(const PayloadSchema& schema, size_t natural) noexcept {
    if (natural == 0) return 1;
    return schema.alignment != 0 && schema.alignment < natural ? schema.alignment : natural;
  }

  void read_schema(const PayloadSchema& schema, const uint8_t* base, size_t size,
                   const std::string& prefix, size_t depth) {
    size_t cursor = 0;
    // Value of each entry: later entries refer to it as array length or union member.
    std::vector<uint64_t> numbers;
    for (size_t i = 0; i < schema.entries.size(); ++i) {
      PayloadEntry entry = schema.entries[i];
      entry.name = prefix + (entry.name.empty() ? "value " + std::to_string(i) : entry.name);
      const size_t alignment = aligned_by(schema, extent_of_entry(entry, depth).alignment);
      size_t at = static_cast<size_t>(entry.offset);
      if (at == 0) at = (cursor + alignment - 1) / alignment * alignment;
      if (at > size) {
        add(entry.name, kNotRead);
        return;  // later entries cannot be read either
      }
      lengths_ = &numbers;
      depth_ = depth;
      const size_t before = out_.values.size();
      const size_t used = read_entry(entry, base, base + at, size - at);
      const bool is_number =
          out_.values.size() == before + 1 && out_.values.back().type != ArgType::string;
      numbers.push_back(is_number ? out_.values.back().word : number_);
      if ((entry.flags & entry_flag::hide) != 0) out_.values.resize(before);
      if (used == SIZE_MAX) return;
      cursor = at + used;
    }
  }

  // Reads an entry at `at`, where the payload has `room` more bytes. Returns the bytes that it
  // occupies; SIZE_MAX: unknown, so that following entries without an offset cannot be read.
  size_t read_entry(const PayloadEntry& entry, const uint8_t* base, const uint8_t* at,
                    size_t room) {
    number_ = 0;
    const uint64_t array = entry.flags & entry_flag::array_mask;
    const size_t character = character_size(entry.type);
    const bool points = (entry.flags & entry_flag::pointer) != 0 || is_text_pointer(entry);
    if ((entry.flags & (entry_flag::offset_from_base | entry_flag::offset_from_here)) != 0) {
      add(entry.name, kNotRead);
      return sizeof(uint64_t);
    }
    size_t available = room;
    const uint8_t* from = at;
    if (points) {
      if (room < sizeof(void*)) return missing(entry);
      std::memcpy(&from, at, sizeof from);
      available = SIZE_MAX;  // the program vouches for the memory
      if (from == nullptr) {
        add(entry.name, "null");
        return sizeof(void*);
      }
    }
    size_t count = 1;  // of elements
    if (array == entry_flag::fixed_array) count = static_cast<size_t>(entry.detail);
    if (array == 0 && character != 0 && !points) count = static_cast<size_t>(entry.detail);
    if (array == entry_flag::length_index) {
      if (lengths_ == nullptr || entry.detail >= lengths_->size()) return missing(entry);
      count = static_cast<size_t>((*lengths_)[static_cast<size_t>(entry.detail)]);
    }
    if (array == entry_flag::length_payload_index) return missing(entry);
    const bool to_zero = array == entry_flag::zero_terminated || is_text_pointer(entry);
    size_t used;
    if (character != 0) {
      used = read_text(entry, from, available, character, to_zero ? SIZE_MAX : count);
    } else {
      used = read_elements(entry, base, from, available, array, to_zero ? SIZE_MAX : count);
    }
    return points ? sizeof(void*) : used;
  }

  size_t read_text(const PayloadEntry& entry, const uint8_t* from, size_t available,
                   size_t character, size_t count) {
    size_t length = 0;
    while (length < count && (length + 1) * character <= available) {
      uint32_t point = 0;
      std::memcpy(&point, from + length * character, character);
      if (point == 0) break;
      ++length;
    }
    std::string text = text_at(from, length, character);
    if ((entry.flags & entry_flag::message) != 0)
      out_.message = std::move(text);
    else
      add(entry.name, std::move(text));
    if (count != SIZE_MAX) return count > available / character ? SIZE_MAX : count * character;
    return (length + 1) * character;
  }

  size_t read_elements(const PayloadEntry& entry, const uint8_t* base, const uint8_t* from,
                       size_t available, uint64_t array, size_t count) {
    const RegisteredType registered = find_payload_type(domain_, entry.type);
    if (registered.schema != nullptr) {
      if (array != 0 || depth_ >= kMostNested) return missing(entry);
      return read_nested(*registered.schema, entry, from, available);
    }
    const Extent extent = extent_of(entry.type, 0);
    if (extent.size == 0 || extent.size > available) return missing(entry);
    (void)base;
    if (array == 0) {
      ReadValue value = element(entry.type, registered, from);
      if ((entry.flags & entry_flag::message) != 0) {
        out_.message = text_of(value);
        return extent.size;
      }
      value.name = entry.name;
      out_.values.push_back(std::move(value));
      return extent.size;
    }
    const Scalar scalar = scalar_of(entry.type);
    const size_t most = available / extent.size;
    size_t length = count < most ? count : most;
    if (count == SIZE_MAX) {  // ends with a zero
      static constexpr uint8_t zero[16] = {};
      for (length = 0; length < most && extent.size <= sizeof zero; ++length)
        if (std::memcmp(from + length * extent.size, zero, extent.size) == 0) break;
    }
    if (scalar.is_character) {
      add(entry.name, text_at(from, length, scalar.size));
    } else {
      std::string text = "[";
      for (size_t i = 0; i < length && i < kMostElements; ++i)
        text +=
            (i == 0 ? "" : ", ") + text_of(element(entry.type, registered, from + i * extent.size));
      add(entry.name, text + (length > kMostElements ? ", ...]" : "]"));
    }
    if (count == SIZE_MAX) return (length + 1) * extent.size;
    return count > most ? SIZE_MAX : count * extent.size;
  }

  // Reads an entry whose type is a schema: a struct by its members, or the chosen member of a union
  // as text.
  size_t read_nested(const PayloadSchema& schema, const PayloadEntry& entry, const uint8_t* from,
                     size_t available) {
    const size_t size = extent_of(schema, depth_ + 1).size;
    if (size == 0 || size > available) return missing(entry);
    const std::vector<uint64_t>* const outer = lengths_;
    const size_t depth = depth_;
    if (schema.type == schema_type::union_) {
      const uint64_t member =
          outer != nullptr && entry.detail < outer->size() ? (*outer)[entry.detail] : UINT64_MAX;
      if (member >= schema.entries.size()) return missing(entry);
      const PayloadEntry& chosen = schema.entries[static_cast<size_t>(member)];
      const size_t before = out_.values.size();
      const size_t offset = std::min<size_t>(chosen.offset, size);
      depth_ = depth + 1;  // a union may contain itself
      read_entry(chosen, from, from + offset, size - offset);
      if (out_.values.size() != before + 1) return missing(entry);
      ReadValue text;  // as text: the chosen member's type may differ between events
      text.name = entry.name;
      text.text = text_of(out_.values.back());
      out_.values.back() = std::move(text);
    } else if (schema.type == schema_type::fixed) {
      read_schema(schema, from, size, entry.name + ".", depth + 1);
    } else {
      return missing(entry);
    }
    lengths_ = outer;
    depth_ = depth;
    return size;
  }

  ReadValue element(uint64_t type, const RegisteredType& registered, const uint8_t* at) {
    ReadValue value;
    if (registered.enumeration != nullptr) {
      std::memcpy(&number_, at, std::min(registered.enumeration->size, sizeof number_));
      value.text = registered.enumeration->text_of(number_);
      return value;
    }
    if (type == entry_type::registered_text) {
      const annotations::RegisteredText* text;
      std::memcpy(&text, at, sizeof text);
      value.text = text != nullptr ? text->text : "";
      return value;
    }
    const Scalar scalar = scalar_of(type);
    value = scalar.read(at);
    if (scalar.is_pointer) value.type = ArgType::pointer;
    if (scalar.is_character) {
      value.text = text_at(at, 1, scalar.size);
      value.type = ArgType::string;
    }
    return value;
  }

  size_t missing(const PayloadEntry& entry) {
    add(entry.name, kNotRead);
    return SIZE_MAX;
  }
  static std::string raw(const uint8_t* from, size_t size) {
    if (size == SIZE_MAX) return kNotRead;
    static constexpr char digits[] = "0123456789abcdef";
    std::string text = "0x";
    for (size_t i = 0; i < size && i < kMostElements; ++i) {
      text += digits[from[i] >> 4];
      text += digits[from[i] & 15];
    }
    return text + (size > kMostElements ? "..." : "");
  }
  void add(const std::string& name, std::string text) {
    ReadValue value;
    value.name = name;
    value.text = std::move(text);
    out_.values.push_back(std::move(value));
  }

  const void* domain_;
  ReadPayloads& out_;
  const std::vector<uint64_t>* lengths_ = nullptr;
  size_t depth_ = 0;
  uint64_t number_ = 0;  // value of the last enumeration
};

}  // namespace

ReadPayloads read_payloads(const void* domain, const PayloadData* payloads, size_t count) {
  ReadPayloads read;
  if (payloads == nullptr) return read;
  for (size_t i = 0; i < count && i < kMostElements; ++i) Reader(domain, read).read(payloads[i]);
  return read;
}

}  // namespace nvtx
FASTPROF_NAMESPACE_END
