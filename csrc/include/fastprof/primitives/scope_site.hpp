// SPDX-License-Identifier: Apache-2.0
// How a RecordScope maps to the recorder: its category, and the site that interned names are made
// like.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/recorder/site.hpp"

FASTPROF_NAMESPACE_BEGIN

// USER_SCOPE is category::user, all others category::op.
constexpr uint32_t scope_category(RecordScope scope) noexcept {
  return scope == RecordScope::USER_SCOPE ? category::user : category::op;
}
constexpr const char* scope_category_name(RecordScope scope) noexcept {
  return scope == RecordScope::USER_SCOPE ? "user_annotation" : "cpu_op";
}

// A range site for a RecordFunction with this name. Static text.
constexpr Site make_scope_site(RecordScope scope, const char* name, const char* file = nullptr,
                               const char* function = nullptr, uint32_t line = 0) noexcept {
  return Site{scope_category(scope),
              SiteKind::range,
              scope,
              0,
              0,
              name,
              scope_category_name(scope),
              file,
              function,
              line,
              0,
              nullptr,
              nullptr,
              -1,
              -1,
              0};
}

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

// scope < NUM_SCOPES.
constexpr const Site& scope_site(RecordScope scope) noexcept {
  return scope_sites[static_cast<size_t>(scope)];
}

FASTPROF_NAMESPACE_END
