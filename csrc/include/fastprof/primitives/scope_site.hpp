// SPDX-License-Identifier: Apache-2.0
// Maps a RecordScope to the recorder: its category, and a prototype site from which interned names
// are made.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/recorder/state/make_site.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns category::user for USER_SCOPE, category::op for all others.
constexpr uint32_t scope_category(RecordScope scope) noexcept {
  return scope == RecordScope::USER_SCOPE ? category::user : category::op;
}

// Makes a range site for a RecordFunction. The texts must be static.
constexpr Site make_scope_site(RecordScope scope, const char* name, const char* file = nullptr,
                               const char* function = nullptr, uint32_t line = 0) noexcept {
  return make_site(SiteKind::range, scope_category(scope), scope, name, file, function, line);
}

// Prototype sites by RecordScope, with empty names.
inline constexpr Site scope_sites[kNumRecordScopes] = {
    make_scope_site(RecordScope::FUNCTION, ""),
    make_scope_site(RecordScope::BACKWARD_FUNCTION, ""),
    make_scope_site(RecordScope::TORCHSCRIPT_FUNCTION, ""),
    make_scope_site(RecordScope::KERNEL_FUNCTION_DTYPE, ""),
    make_scope_site(RecordScope::CUSTOM_CLASS, ""),
    make_scope_site(RecordScope::BUILD_FEATURE, ""),
    make_scope_site(RecordScope::LITE_INTERPRETER, ""),
    make_scope_site(RecordScope::USER_SCOPE, ""),
    make_scope_site(RecordScope::STATIC_RUNTIME_OP, ""),
    make_scope_site(RecordScope::STATIC_RUNTIME_MODEL, ""),
};

// Returns the prototype site of a scope; scope < NUM_SCOPES.
constexpr const Site& scope_site(RecordScope scope) noexcept {
  return scope_sites[static_cast<size_t>(scope)];
}

FASTPROF_NAMESPACE_END
