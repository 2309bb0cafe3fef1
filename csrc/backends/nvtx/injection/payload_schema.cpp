// SPDX-License-Identifier: Apache-2.0
// Table of registered schemas and enumerations: see payload_schema.hpp.
#include "backends/nvtx/injection/payload_schema.hpp"

#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "fastprof/base/child_handler.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {
namespace {

using Key = std::pair<const void*, uint64_t>;  // domain (null for ids of ours), id

struct Types {
  std::mutex lock;
  std::map<Key, RegisteredType> known;
  uint64_t last = kFirstDynamicSchema;
};
Types& types() noexcept {
  static Types& all = *new Types;
  return all;
}

std::string text_or_empty(const char* text) {
  return text != nullptr ? text : "";
}

// Adds a type, under the program's id if it chose a valid static one, else under a new one. Returns
// the id.
uint64_t add(const void* domain, uint64_t chosen, const RegisteredType& type) {
  const std::lock_guard<std::mutex> hold(types().lock);
  const bool is_chosen = chosen >= kFirstStaticSchema && chosen < kFirstDynamicSchema;
  const uint64_t id = is_chosen ? chosen : ++types().last;
  types().known[{is_chosen ? domain : nullptr, id}] = type;
  return id;
}

}  // namespace

std::string PayloadEnum::text_of(uint64_t value) const {
  for (const Value& each : values)
    if (!each.is_flag && each.value == value) return each.name;
  std::string text;
  uint64_t left = value;
  for (const Value& each : values) {
    if (!each.is_flag || each.value == 0 || (left & each.value) != each.value) continue;
    text += (text.empty() ? "" : "|") + each.name;
    left &= ~each.value;
  }
  if (text.empty() || left != 0) text += (text.empty() ? "" : "|") + std::to_string(left);
  return text;
}

uint64_t register_schema(const void* domain, const SchemaAttributes* given) noexcept {
  constexpr uint64_t needed = schema_field::type | schema_field::entries | schema_field::count;
  if (given == nullptr || (given->fields & needed) != needed || given->entries == nullptr) return 0;
  const auto has = [given](uint64_t field) { return (given->fields & field) != 0; };
  try {
    auto schema = std::make_unique<PayloadSchema>();
    if (has(schema_field::name)) schema->name = text_or_empty(given->name);
    schema->type = given->type;
    if (has(schema_field::static_size)) schema->static_size = given->static_size;
    if (has(schema_field::alignment)) schema->alignment = given->alignment;
    for (size_t i = 0; i < given->count; ++i) {
      const SchemaEntry& entry = given->entries[i];
      schema->entries.push_back(
          {entry.flags, entry.type, text_or_empty(entry.name), entry.detail, entry.offset});
    }
    return add(domain, has(schema_field::id) ? given->id : 0, {schema.release(), nullptr});
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

uint64_t register_enum(const void* domain, const EnumAttributes* given) noexcept {
  constexpr uint64_t needed = enum_field::entries | enum_field::count;
  if (given == nullptr || (given->fields & needed) != needed || given->entries == nullptr) return 0;
  try {
    auto made = std::make_unique<PayloadEnum>();
    if ((given->fields & enum_field::size) != 0) made->size = given->size;
    for (size_t i = 0; i < given->count; ++i) {
      const EnumEntry& entry = given->entries[i];
      made->values.push_back({text_or_empty(entry.name), entry.value, entry.is_flag != 0});
    }
    return add(domain, (given->fields & enum_field::id) != 0 ? given->id : 0,
               {nullptr, made.release()});
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

RegisteredType find_payload_type(const void* domain, uint64_t id) noexcept {
  const std::lock_guard<std::mutex> hold(types().lock);
  const auto found = types().known.find({id < kFirstDynamicSchema ? domain : nullptr, id});
  return found == types().known.end() ? RegisteredType{} : found->second;
}

void watch_forks_of_schemas() noexcept {
  static ChildHandler handler;
  handler.install([] { renew_guarded(types().lock, types().known); }, types());
}

}  // namespace nvtx
FASTPROF_NAMESPACE_END
