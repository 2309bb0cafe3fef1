// SPDX-License-Identifier: Apache-2.0
// Support for the macros that take arguments, run-time names or counter values.
#pragma once

#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/range.hpp"
#include "fastprof/recorder/hot_path/site_macros.hpp"

FASTPROF_NAMESPACE_BEGIN

// Whether a record of this mask might be kept, so that its arguments must be evaluated. One load
// and a test.
FASTPROF_ALWAYS_INLINE bool may_record(uint32_t mask) noexcept {
  return FASTPROF_UNLIKELY((load_relaxed(&state()->mask) & (mask | mask_bit::special)) != 0);
}

// Site of a counter, with the type of its value.
struct CounterSite {
  const char* names[1];
  ArgType types[1];
  Site site;

  constexpr CounterSite(const char* name, const char* file, const char* function, uint32_t line,
                        ArgType type) noexcept
      : names{"value"},
        types{type},
        site(make_site(SiteKind::counter, category::counter, RecordScope::USER_SCOPE, name, file,
                       function, line)) {
    site.arg_count = 1;  // the value is the slot's second word, so no unit follows
    site.arg_units = 0;
    site.arg_names = names;
    site.arg_types = types;
  }
};

// Names of the arguments of a site, in static storage.
template <size_t Size>
struct ArgKeys {
  const char* names[Size];
};

// Types of the arguments of a site, in static storage.
template <class... Values>
struct ValueTypes {
  static constexpr uint8_t count = sizeof...(Values);
  static constexpr ArgType types[sizeof...(Values)] = {arg_type_of<Values>()...};
};

// For decltype only: the value types in a list of key, value, key, value...
template <class... Done>
struct ValueTypesOf {
  template <class Key, class Given>
  static ValueTypes<Done..., Given> pick(const Key&, const Given&);
  template <class Key, class Given, class... Rest>
  static auto pick(const Key&, const Given&, const Rest&... rest)
      -> decltype(ValueTypesOf<Done..., Given>::pick(rest...));
};
template <class... All>
auto value_types(const All&... all) -> decltype(ValueTypesOf<>::pick(all...));

// Encodes the values of a list of key, value, key, value... in words[0], words[1]... Throws what a
// conversion to text throws.
FASTPROF_ALWAYS_INLINE void store_args(NameUse&, uint64_t*) noexcept {}
template <class Key, class Given, class... Rest>
FASTPROF_ALWAYS_INLINE void store_args(NameUse& use, uint64_t* words, const Key&,
                                       const Given& value, const Rest&... rest) {
  words[0] = arg_word(use, value);
  store_args(use, words + 1, rest...);
}

// A range with a run-time name. `name` is called only if something records, and interns the string
// itself, because that may be a temporary in the argument expression. An exception of the
// expression propagates before anything is recorded, and before the NameUse begins.
class DynamicRange {
 public:
  template <class Name>
  FASTPROF_ALWAYS_INLINE DynamicRange(const Site& like, Name name) {
    State* s = state();
    const uint32_t mask = load_relaxed(&s->mask);
    if (FASTPROF_UNLIKELY((mask & (like.mask | mask_bit::special)) != 0)) {
      NameUse use;
      site_ = name(use, like);
      open_ = begin_fast(s, mask, site_, 0, nullptr, 0);
    }
  }
  FASTPROF_ALWAYS_INLINE ~DynamicRange() {
    if (FASTPROF_UNLIKELY(open_.slot != nullptr)) end_open(open_, site_);
  }
  DynamicRange(const DynamicRange&) = delete;
  DynamicRange& operator=(const DynamicRange&) = delete;

 private:
  OpenRange open_;
  const Site* site_ = nullptr;
};

// A range with Size argument words. `fill` writes them; it is called only if something records. An
// exception of an argument expression propagates before anything is recorded.
template <size_t Size>
class ArgRange {
 public:
  template <class Fill>
  FASTPROF_ALWAYS_INLINE ArgRange(const Site& site, Fill fill) : site_(&site) {
    State* s = state();
    const uint32_t mask = load_relaxed(&s->mask);
    if (FASTPROF_UNLIKELY((mask & (site.mask | mask_bit::special)) != 0)) {
      uint64_t words[Size];
      NameUse use;
      fill(use, words);
      open_ = begin_fast(s, mask, &site, (Size + 2) / 3, words, Size);
    }
  }
  FASTPROF_ALWAYS_INLINE ~ArgRange() {
    if (FASTPROF_UNLIKELY(open_.slot != nullptr)) end_open(open_, site_);
  }
  ArgRange(const ArgRange&) = delete;
  ArgRange& operator=(const ArgRange&) = delete;

 private:
  OpenRange open_;
  const Site* site_;
};

FASTPROF_NAMESPACE_END
