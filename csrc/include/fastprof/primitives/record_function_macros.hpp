// SPDX-License-Identifier: Apache-2.0
// FASTPROF_RECORD_FUNCTION and its variants: a RecordFunction for the rest of the enclosing scope.
#pragma once

// The first argument is the name: a string literal, or in the _DYNAMIC forms any const char*,
// std::string or std::string_view expression. Options follow in any order. Their expressions are
// evaluated only if a callback or the recorder is active, and inputs are converted to Values only
// if a callback or a session needs them:
//   FASTPROF_RECORD_FUNCTION("matmul", fastprof::inputs(a, b), fastprof::sequence_number(n));
//   FASTPROF_RECORD_OUTPUTS(result);  // outputs of the RecordFunction of this scope
// Options: inputs(...), kwinputs({{"dim", 1}}), sequence_number(n), forward_thread_id(id),
// overload_name("out"), debug_handle(h), node_id(n), async(). Inputs are converted by to_value. One
// scope can contain at most one RecordFunction made by the macros. With FASTPROF_DISABLE all macros
// expand to nothing and no argument is evaluated.

#if defined(FASTPROF_DISABLE)

#define FASTPROF_RECORD_FUNCTION(...) static_cast<void>(0)
#define FASTPROF_RECORD_FUNCTION_DYNAMIC(...) static_cast<void>(0)
#define FASTPROF_RECORD_FUNCTION_WITH_SCOPE(...) static_cast<void>(0)
#define FASTPROF_RECORD_FUNCTION_WITH_SCOPE_DYNAMIC(...) static_cast<void>(0)
#define FASTPROF_RECORD_USER_SCOPE(...) static_cast<void>(0)
#define FASTPROF_RECORD_USER_SCOPE_DYNAMIC(...) static_cast<void>(0)
#define FASTPROF_RECORD_OUTPUTS(...) static_cast<void>(0)

#else

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/record_function.hpp"
#include "fastprof/primitives/record_function_options.hpp"
#include "fastprof/primitives/scope_site.hpp"
#include "fastprof/primitives/scoped_record_function.hpp"
#include "fastprof/recorder/hot_path/site_macros.hpp"

// Scope RecordScope::FUNCTION.
#define FASTPROF_RECORD_FUNCTION(...) \
  FASTPROF_RECORD_FUNCTION_WITH_SCOPE(::fastprof::RecordScope::FUNCTION, __VA_ARGS__)
#define FASTPROF_RECORD_FUNCTION_DYNAMIC(...) \
  FASTPROF_RECORD_FUNCTION_WITH_SCOPE_DYNAMIC(::fastprof::RecordScope::FUNCTION, __VA_ARGS__)

// Scope RecordScope::USER_SCOPE.
#define FASTPROF_RECORD_USER_SCOPE(...) \
  FASTPROF_RECORD_FUNCTION_WITH_SCOPE(::fastprof::RecordScope::USER_SCOPE, __VA_ARGS__)
#define FASTPROF_RECORD_USER_SCOPE_DYNAMIC(...) \
  FASTPROF_RECORD_FUNCTION_WITH_SCOPE_DYNAMIC(::fastprof::RecordScope::USER_SCOPE, __VA_ARGS__)

// FASTPROF_RECORD_OUTPUTS finds the innermost by its name, so that of a scope inside another
// shadows.
#define FASTPROF_SHADOWS_BEGIN_ \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wshadow\"")
#define FASTPROF_SHADOWS_END_ _Pragma("GCC diagnostic pop")

// Arguments: (scope, name, options...). The scope must be a constant expression.
#define FASTPROF_RECORD_FUNCTION_WITH_SCOPE(scope, ...)                                            \
  FASTPROF_SHADOWS_BEGIN_                                                                          \
  FASTPROF_LOCAL_CONSTANT ::fastprof::Site fastprof_record_function_site =                         \
      ::fastprof::make_scope_site(scope, "" FASTPROF_FIRST_(__VA_ARGS__, ), __FILE__, __func__,    \
                                  static_cast<uint32_t>(__LINE__));                                \
  ::fastprof::RecordFunctionStorage fastprof_record_function_storage;                              \
  const ::fastprof::ScopedRecordFunction fastprof_record_function(                                 \
      fastprof_record_function_storage, fastprof_record_function_site,                             \
      FASTPROF_BEGIN_(__VA_ARGS__));                                                               \
  FASTPROF_SHADOWS_END_                                                                            \
  FASTPROF_UNLIKELY(fastprof_record_function.get() != nullptr)                                     \
  ? ::fastprof::begin_with_options(*fastprof_record_function.get(), fastprof_record_function_site, \
                                   __VA_ARGS__)                                                    \
  : static_cast<void>(0)

#define FASTPROF_RECORD_FUNCTION_WITH_SCOPE_DYNAMIC(scope, ...)                          \
  FASTPROF_SHADOWS_BEGIN_                                                                \
  ::fastprof::RecordFunctionStorage fastprof_record_function_storage;                    \
  const ::fastprof::ScopedRecordFunction fastprof_record_function(                       \
      fastprof_record_function_storage, scope);                                          \
  FASTPROF_SHADOWS_END_                                                                  \
  FASTPROF_UNLIKELY(fastprof_record_function.get() != nullptr)                           \
  ? ::fastprof::begin_with_options_dynamic(*fastprof_record_function.get(), __VA_ARGS__) \
  : static_cast<void>(0)

// Sets the outputs of the RecordFunction that a macro above made in this or an enclosing scope of
// the same function. The arguments are evaluated only if a callback needs outputs.
#define FASTPROF_RECORD_OUTPUTS(...)                                                          \
  (FASTPROF_UNLIKELY(fastprof_record_function.get() != nullptr)                               \
       ? ::fastprof::set_outputs_lazily(*fastprof_record_function.get(),                      \
                                        [&] { return ::fastprof::make_values(__VA_ARGS__); }) \
       : static_cast<void>(0))

// Expands to Begin::now for a name alone, to Begin::with_options if 1 to 15 options follow.
#define FASTPROF_BEGIN_(...)                                                              \
  ::fastprof::Begin::FASTPROF_SEVENTEENTH_(                                               \
      __VA_ARGS__, with_options, with_options, with_options, with_options, with_options,  \
      with_options, with_options, with_options, with_options, with_options, with_options, \
      with_options, with_options, with_options, with_options, now, )
#define FASTPROF_SEVENTEENTH_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, seventeenth, ...) \
  seventeenth
#define FASTPROF_FIRST_(first, ...) first

#endif
