// SPDX-License-Identifier: Apache-2.0
// make_site: constructs a Site from the fields that differ between sites; the only place that fills
// all sixteen.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN

// The category name shown in traces (Kineto's names).
constexpr const char* default_category_name(uint32_t mask) noexcept {
  if ((mask & category::user) != 0) return "user_annotation";
  if ((mask & category::op) != 0) return "cpu_op";
  if ((mask & (category::mark | category::memory)) != 0) return "cpu_instant_event";
  if ((mask & category::counter) != 0) return "counter";
  if ((mask & category::flow) != 0) return "flow";
  // Kineto has no category for async work. As user_annotation, an async range shares a table row
  // with ranges of its name.
  if ((mask & category::async) != 0) return "user_annotation";
  if ((mask & category::python_call) != 0) return "python_function";
  return "user_annotation";
}

// Texts must be static or live as long as the site. Memory and out_of_memory sites have one
// argument unit although arg_count is 0. module_sites.hpp recognises a static site by what is
// filled in here, the device of -1 above all.
constexpr Site make_site(SiteKind kind, uint32_t mask, RecordScope scope, const char* name,
                         const char* file, const char* function, uint32_t line,
                         uint8_t arg_count = 0, const char* const* arg_names = nullptr,
                         const ArgType* arg_types = nullptr, uint32_t color = 0) noexcept {
  const bool reports_memory = kind == SiteKind::memory || kind == SiteKind::out_of_memory;
  return Site{mask,
              kind,
              scope,
              arg_count,
              static_cast<uint8_t>(reports_memory ? 1 : (arg_count + 2) / 3),
              name,
              default_category_name(mask),
              file,
              function,
              line,
              color,
              arg_names,
              arg_types,
              -1,
              -1,
              0};
}

// A copy of the site with another category name.
constexpr Site in_category(Site site, const char* category_name) noexcept {
  site.category_name = category_name;
  return site;
}

FASTPROF_NAMESPACE_END
