// SPDX-License-Identifier: Apache-2.0
// Prototype sites of annotations that a program reports through NVTX or ITT: one for each set of
// attributes that an annotation may have, because a site says which arguments follow a record.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/make_site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

enum class PayloadType : uint8_t { none = 0, unsigned_integer = 1, integer = 2, real = 3 };

// Attributes of an annotation besides its name. Texts are interned or static.
struct Attributes {
  const char* domain = nullptr;    // null: the default domain
  const char* category = nullptr;  // null: none
  bool has_color = false;
  PayloadType payload_type = PayloadType::none;
  uint32_t color = 0;    // 0xAARRGGBB
  uint64_t payload = 0;  // bits of a value of type payload_type

  // Index of the prototype with these attributes.
  FASTPROF_ALWAYS_INLINE size_t layout() const noexcept {
    return (domain != nullptr ? 1u : 0u) | (category != nullptr ? 2u : 0u) | (has_color ? 4u : 0u) |
           static_cast<size_t>(payload_type) << 3;
  }
};

constexpr size_t kLayouts = 32;
constexpr size_t kMaxAttributes = 4;
constexpr size_t kAttributeWords = 6;  // in units of three

// Names and types of the arguments of one layout, in the order in which put_attributes() writes.
struct Layout {
  const char* names[kMaxAttributes];
  ArgType types[kMaxAttributes];
  uint8_t count;
};

constexpr std::array<Layout, kLayouts> make_layouts() noexcept {
  std::array<Layout, kLayouts> layouts{};
  for (size_t bits = 0; bits < kLayouts; ++bits) {
    Layout& layout = layouts[bits];
    if ((bits & 1) != 0) {
      layout.names[layout.count] = "domain";
      layout.types[layout.count++] = ArgType::string;
    }
    if ((bits & 2) != 0) {
      layout.names[layout.count] = "category";
      layout.types[layout.count++] = ArgType::string;
    }
    if ((bits & 4) != 0) {
      layout.names[layout.count] = "color";
      layout.types[layout.count++] = ArgType::pointer;  // shown in hexadecimal
    }
    if (bits >> 3 != 0) {
      constexpr ArgType types[] = {ArgType::uint64, ArgType::int64, ArgType::float64};
      layout.names[layout.count] = "payload";
      layout.types[layout.count++] = types[(bits >> 3) - 1];
    }
  }
  return layouts;
}
inline constexpr std::array<Layout, kLayouts> layouts = make_layouts();

constexpr std::array<Site, kLayouts> make_sites(SiteKind kind, uint32_t mask) noexcept {
  std::array<Site, kLayouts> sites{};
  for (size_t i = 0; i < kLayouts; ++i)
    sites[i] = make_site(kind, mask, RecordScope::USER_SCOPE, "<annotation>", "", "", 0,
                         layouts[i].count, layouts[i].names, layouts[i].types);
  return sites;
}
inline constexpr std::array<Site, kLayouts> range_sites =
    make_sites(SiteKind::range, category::user);
inline constexpr std::array<Site, kLayouts> async_sites =
    make_sites(SiteKind::async_range, category::async);
inline constexpr std::array<Site, kLayouts> mark_sites = make_sites(SiteKind::mark, category::mark);

// Writes the argument words; `words` has room for kAttributeWords.
FASTPROF_ALWAYS_INLINE void put_attributes(const Attributes& attributes, uint64_t* words) noexcept {
  if (attributes.domain != nullptr) *words++ = reinterpret_cast<uintptr_t>(attributes.domain);
  if (attributes.category != nullptr) *words++ = reinterpret_cast<uintptr_t>(attributes.category);
  if (attributes.has_color) *words++ = attributes.color;
  if (attributes.payload_type != PayloadType::none) *words++ = attributes.payload;
}

}  // namespace annotations
FASTPROF_NAMESPACE_END
