// SPDX-License-Identifier: Apache-2.0
// Slow lookups of names, and sites for new ones: see op_names.hpp.
#include "adapters/torch/ops/op_names.hpp"

#include <string_view>

#include "adapters/torch/ops/collective_metadata.hpp"
#include "adapters/torch/ops/overload_sites.hpp"
#include "fastprof/primitives/scope_site.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

const char* (*g_name)(const RecordFunctionView*) = nullptr;
const char* (*g_overload_name)(const RecordFunctionView*) = nullptr;

RecordScope scope_of(uint8_t scope) noexcept {
  return scope < kNumRecordScopes ? static_cast<RecordScope>(scope) : RecordScope::FUNCTION;
}

// Queries libtorch; used if Layout does not include the name.
NameView ask_name(const RecordFunctionView& record_function) noexcept {
  const char* name = g_name(&record_function);
  return {name, std::strlen(name), true};
}

bool same_overload(const OpName& met, const char* overload) noexcept {
  if (!met.overloaded) return overload[0] == '\0';
  return std::strcmp(met.site->function, overload) == 0;
}

void note(OpName& place, const char* pointer, size_t length, uint8_t scope,
          const Site* site) noexcept {
  place.pointer = pointer;
  place.site = site;
  place.mask = site->mask;
  place.length = static_cast<uint32_t>(length);
  place.scope = scope;
  place.collective = is_collective(site->name);
  place.overloaded = site->function != nullptr && site->function[0] != '\0';
  if (length <= OpName::kOwnText) std::memcpy(place.own, site->name, length);
}

// Uses the adjacent entry if another name occupies the primary one.
void note_address(OpNames& names, const NameView& name, uint8_t scope, const Site* site) noexcept {
  OpName& first = names.place_of_pointer(name.text);
  OpName& beside = names.place_of_pointer(name.text, 1);
  const bool taken = first.site != nullptr && first.pointer != name.text;
  note(taken && beside.site == nullptr ? beside : first, name.text, name.length, scope, site);
}

// Returns whether an entry has this name. Avoids memcmp, whose code is usually not cached.
FASTPROF_HOT bool same_text(const OpName& met, const NameView& name) noexcept {
  const size_t length = name.length;
  if (met.length != length) return false;
  const char* text = length <= OpName::kOwnText ? met.own : met.site->name;
  if (length < 8) return std::memcmp(text, name.text, length) == 0;
  for (size_t at = 0; at < length; at += OpName::kOwnText) {
    // The last word may overlap the previous ones.
    const size_t rest = length - at < 8 ? 8 : length - at;
    const size_t from = length - at < 8 ? length - 8 : at;
    if (!same_words(text + from, name.text + from,
                    rest < OpName::kOwnText ? rest : OpName::kOwnText))
      return false;
  }
  return true;
}

FASTPROF_COLD const OpName* intern_name(OpNames& names, const NameView& name, uint8_t scope,
                                        const char* overload) noexcept {
  const Site& like = site_with_overload(scope_site(scope_of(scope)), overload);
  // As PyTorch does: up to the first NUL.
  const size_t length = std::strlen(name.text);
  const Site* site = intern_site(like, std::string_view(name.text, length));
  // If the tables are full, the shared site has no name; do not cache it, so that a later lookup
  // may succeed.
  if (site->name[0] == '\0' || length != name.length) {
    note(names.unnamed, nullptr, 0, scope, site);
    return &names.unnamed;
  }
  if (name.of_schema) note_address(names, name, scope, site);
  OpName& place = names.place_of_text(name.text, length);
  note(place, nullptr, length, scope, site);
  return &place;
}

}  // namespace

FASTPROF_COLD const OpName* name_user_range(NameUse& use, OpNames& names,
                                            const RecordFunctionView& record_function) noexcept {
  DirectMemory memory;
  const NameView name =
      g_op_view.name != 0
          ? read_name(reinterpret_cast<uintptr_t>(&record_function), g_op_view.name, memory)
          : ask_name(record_function);
  const auto scope = field<uint8_t>(&record_function, g_op_view.scope);
  // As PyTorch does: up to the first NUL.
  const std::string_view text(name.text, strnlen(name.text, name.length));
  note(names.unnamed, nullptr, 0, scope, session_site(use, scope_site(scope_of(scope)), text));
  return &names.unnamed;
}

FASTPROF_HOT const OpName* find_name(OpNames& names,
                                     const RecordFunctionView& record_function) noexcept {
  // Names of user ranges are unlimited in number; those of ops are few and permanent.
  const auto scope = field<uint8_t>(&record_function, g_op_view.scope);
  if (FASTPROF_UNLIKELY(scope == static_cast<uint8_t>(RecordScope::USER_SCOPE))) return nullptr;
  DirectMemory memory;
  const NameView name =
      FASTPROF_LIKELY(g_op_view.name != 0)
          ? read_name(reinterpret_cast<uintptr_t>(&record_function), g_op_view.name, memory)
          : ask_name(record_function);
  const char* overload = "";
  if (name.of_schema) {
    for (const size_t beside : {size_t{0}, size_t{1}}) {
      const OpName& met = names.place_of_pointer(name.text, beside);
      if (met.pointer == name.text && met.scope == scope && same_text(met, name)) return &met;
    }
    overload = g_overload_name(&record_function);
  }
  const OpName& met = names.place_of_text(name.text, name.length);
  if (FASTPROF_LIKELY(met.site != nullptr && met.scope == scope && same_text(met, name) &&
                      same_overload(met, overload))) {
    if (name.of_schema && names.place_of_pointer(name.text).site == nullptr)
      note_address(names, name, scope, met.site);
    return &met;
  }
  return intern_name(names, name, scope, overload);
}

void prepare_names(const Functions& functions) noexcept {
  g_name = functions.name;
  g_overload_name = functions.overload_name;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
