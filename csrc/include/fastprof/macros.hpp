// SPDX-License-Identifier: Apache-2.0
// Annotation macros. Any thread. With FASTPROF_DISABLE they expand to nothing and their arguments
// are not evaluated. Otherwise arguments of FASTPROF_RANGE_ARGS, RANGE_DYNAMIC and COUNTER are
// evaluated only while something records.
//
//   FASTPROF_RANGE(name)                        range: from here to the end of the scope; name is a
//                                               string literal
//   FASTPROF_RANGE_IN(category, name)           the same in a category of fastprof::category
//   FASTPROF_RANGE_DYNAMIC(name)                the same; name is any expression convertible to
//                                               std::string_view, interned (about 10 ns more)
//   FASTPROF_FUNCTION()                         range with the name of the enclosing function
//   FASTPROF_WAIT(name)                         range around code that only waits, such as that
//                                               for a lock: category "wait" in tables and traces,
//                                               and behind all other ranges in summaries
//   FASTPROF_RANGE_ARGS(name, key, value, ...)  range with 1 to 6 arguments. Keys are literals;
//                                               values are integers, floats, bools, enums, strings
//                                               (copied up to the first NUL) or pointers
//   FASTPROF_MARK(name)                         instant event; name is a string literal
//   FASTPROF_COUNTER(name, value)               one sample of a counter; value is a number or bool
//   FASTPROF_FLOW_BEGIN(id)                     start of an arrow, which leaves the enclosing range
//   FASTPROF_FLOW_END(id)                       its end, at the enclosing range; same 64-bit id
//   FASTPROF_ASYNC_BEGIN(name)                  begins async work; the value is an AsyncHandle
//   FASTPROF_ASYNC_END(handle)                  ends it, on any thread; call it once, and before
//                                               the library that began it is unloaded
//
// Every macro may be used on any thread. None throws by itself; what an argument expression throws
// is propagated.
#pragma once

#if defined(FASTPROF_DISABLE)

// Not evaluated, and counts as a use of a variable.
#define FASTPROF_DETAIL_UNUSED(value) (false ? static_cast<void>(value) : static_cast<void>(0))

#define FASTPROF_RANGE_IN(category_mask, name) static_cast<void>(0)
#define FASTPROF_RANGE(name) static_cast<void>(0)
#define FASTPROF_WAIT(name) static_cast<void>(0)
#define FASTPROF_RANGE_DYNAMIC(name) static_cast<void>(0)
#define FASTPROF_FUNCTION() static_cast<void>(0)
#define FASTPROF_RANGE_ARGS(name, ...) static_cast<void>(0)
#define FASTPROF_MARK(name) static_cast<void>(0)
#define FASTPROF_COUNTER(name, value) FASTPROF_DETAIL_UNUSED(value)
#define FASTPROF_FLOW_BEGIN(id) FASTPROF_DETAIL_UNUSED(id)
#define FASTPROF_FLOW_END(id) FASTPROF_DETAIL_UNUSED(id)
#define FASTPROF_ASYNC_BEGIN(name) 0
#define FASTPROF_ASYNC_END(handle) FASTPROF_DETAIL_UNUSED(handle)

#else

#include "fastprof/recorder/hot_path/range.hpp"
#include "fastprof/recorder/hot_path/range_args.hpp"
#include "fastprof/recorder/hot_path/site_macros.hpp"

// __COUNTER__ makes variable names unique, so one line may hold several macros. Clang 22 and newer
// warn about it in pedantic mode (-Wc2y-extensions).
#define FASTPROF_UNIQUE_BEGIN
#define FASTPROF_UNIQUE_END
#if defined(__clang__) && defined(__has_warning)
#if __has_warning("-Wc2y-extensions")
#undef FASTPROF_UNIQUE_BEGIN
#undef FASTPROF_UNIQUE_END
#define FASTPROF_UNIQUE_BEGIN \
  _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wc2y-extensions\"")
#define FASTPROF_UNIQUE_END _Pragma("clang diagnostic pop")
#endif
#endif

// Defines the Site of one place in the source. The Range objects below are not const: g++ 12 keeps
// a const object in memory, which adds three stores and a load when recording is off.
#define FASTPROF_DETAIL_SITE(variable, kind, mask, scope, name)                               \
  FASTPROF_LOCAL_CONSTANT ::fastprof::Site variable =                                         \
      ::fastprof::make_site(::fastprof::SiteKind::kind, mask, ::fastprof::RecordScope::scope, \
                            name, __FILE__, __func__, static_cast<uint32_t>(__LINE__))

#define FASTPROF_DETAIL_RANGE(id, mask, scope, name)                                   \
  FASTPROF_DETAIL_SITE(FASTPROF_CONCAT(fastprof_site_, id), range, mask, scope, name); \
  ::fastprof::Range FASTPROF_CONCAT(fastprof_range_, id)(FASTPROF_CONCAT(fastprof_site_, id))

#define FASTPROF_RANGE_IN(category_mask, name)                                                 \
  FASTPROF_UNIQUE_BEGIN FASTPROF_DETAIL_RANGE(__COUNTER__, category_mask, USER_SCOPE, "" name) \
      FASTPROF_UNIQUE_END
#define FASTPROF_RANGE(name) FASTPROF_RANGE_IN(::fastprof::category::user, name)

#define FASTPROF_DETAIL_WAIT(id, name)                                                         \
  FASTPROF_LOCAL_CONSTANT ::fastprof::Site FASTPROF_CONCAT(fastprof_site_, id) =               \
      ::fastprof::in_category(                                                                 \
          ::fastprof::make_site(::fastprof::SiteKind::range, ::fastprof::category::user,       \
                                ::fastprof::RecordScope::USER_SCOPE, name, __FILE__, __func__, \
                                static_cast<uint32_t>(__LINE__)),                              \
          ::fastprof::kWaitCategory);                                                          \
  ::fastprof::Range FASTPROF_CONCAT(fastprof_range_, id)(FASTPROF_CONCAT(fastprof_site_, id))
#define FASTPROF_WAIT(name) \
  FASTPROF_UNIQUE_BEGIN FASTPROF_DETAIL_WAIT(__COUNTER__, "" name) FASTPROF_UNIQUE_END
#define FASTPROF_FUNCTION()                                                                      \
  FASTPROF_UNIQUE_BEGIN FASTPROF_DETAIL_RANGE(__COUNTER__, ::fastprof::category::user, FUNCTION, \
                                              __func__) FASTPROF_UNIQUE_END

#define FASTPROF_DETAIL_DYNAMIC(id, name)                                                        \
  FASTPROF_DETAIL_SITE(FASTPROF_CONCAT(fastprof_site_, id), range, ::fastprof::category::user,   \
                       USER_SCOPE, "<dynamic>");                                                 \
  ::fastprof::DynamicRange FASTPROF_CONCAT(fastprof_range_, id)(                                 \
      FASTPROF_CONCAT(fastprof_site_, id),                                                       \
      [&](::fastprof::NameUse& fastprof_use,                                                     \
          const ::fastprof::Site& fastprof_like) FASTPROF_HIDDEN_LAMBDA {                        \
        return ::fastprof::session_site(fastprof_use, fastprof_like, ::fastprof::text_of(name)); \
      })
#define FASTPROF_RANGE_DYNAMIC(name) \
  FASTPROF_UNIQUE_BEGIN FASTPROF_DETAIL_DYNAMIC(__COUNTER__, name) FASTPROF_UNIQUE_END

#define FASTPROF_MARK(name)                                                                     \
  do {                                                                                          \
    FASTPROF_DETAIL_SITE(fastprof_site, mark, ::fastprof::category::mark, USER_SCOPE, "" name); \
    ::fastprof::record_instant(fastprof_site, 0);                                               \
  } while (false)

#define FASTPROF_COUNTER(name, value)                                                         \
  do {                                                                                        \
    static_assert(::fastprof::arg_type_of<decltype(value)>() != ::fastprof::ArgType::pointer, \
                  "the value of a counter is a number or bool");                              \
    FASTPROF_LOCAL_CONSTANT ::fastprof::CounterSite fastprof_site(                            \
        "" name, __FILE__, __func__, static_cast<uint32_t>(__LINE__),                         \
        ::fastprof::arg_type_of<decltype(value)>());                                          \
    if (::fastprof::may_record(fastprof_site.site.mask))                                      \
      ::fastprof::record_instant(fastprof_site.site, ::fastprof::arg_word(value));            \
  } while (false)

#define FASTPROF_DETAIL_FLOW(kind, id)                                                         \
  do {                                                                                         \
    FASTPROF_DETAIL_SITE(fastprof_site, kind, ::fastprof::category::flow, USER_SCOPE, "flow"); \
    ::fastprof::record_instant(fastprof_site, static_cast<uint64_t>(id));                      \
  } while (false)
#define FASTPROF_FLOW_BEGIN(id) FASTPROF_DETAIL_FLOW(flow_begin, id)
#define FASTPROF_FLOW_END(id) FASTPROF_DETAIL_FLOW(flow_end, id)

#define FASTPROF_ASYNC_BEGIN(name)                                                            \
  ([]() noexcept {                                                                            \
    FASTPROF_DETAIL_SITE(fastprof_site, async_range, ::fastprof::category::async, USER_SCOPE, \
                         "" name);                                                            \
    return ::fastprof::begin_async(fastprof_site);                                            \
  }())
#define FASTPROF_ASYNC_END(handle) ::fastprof::end_async(handle)

// The argument types are part of the site, so a record contains only the values.
#define FASTPROF_DETAIL_ARGS(id, name, ...)                                                        \
  using FASTPROF_CONCAT(fastprof_types_, id) = decltype(::fastprof::value_types(__VA_ARGS__));     \
  FASTPROF_LOCAL_CONSTANT ::fastprof::ArgKeys<FASTPROF_CONCAT(fastprof_types_, id)::count>         \
      FASTPROF_CONCAT(fastprof_keys_, id) = {{FASTPROF_DETAIL_KEYS(__VA_ARGS__)}};                 \
  FASTPROF_LOCAL_CONSTANT ::fastprof::Site FASTPROF_CONCAT(fastprof_site_, id) =                   \
      ::fastprof::make_site(                                                                       \
          ::fastprof::SiteKind::range, ::fastprof::category::user,                                 \
          ::fastprof::RecordScope::USER_SCOPE, "" name, __FILE__, __func__,                        \
          static_cast<uint32_t>(__LINE__), FASTPROF_CONCAT(fastprof_types_, id)::count,            \
          FASTPROF_CONCAT(fastprof_keys_, id).names, FASTPROF_CONCAT(fastprof_types_, id)::types); \
  ::fastprof::ArgRange<FASTPROF_CONCAT(fastprof_types_, id)::count> FASTPROF_CONCAT(               \
      fastprof_range_, id)(                                                                        \
      FASTPROF_CONCAT(fastprof_site_, id),                                                         \
      [&](::fastprof::NameUse& fastprof_use, uint64_t* fastprof_words) FASTPROF_HIDDEN_LAMBDA {    \
        ::fastprof::store_args(fastprof_use, fastprof_words, __VA_ARGS__);                         \
      })
#define FASTPROF_RANGE_ARGS(name, ...) \
  FASTPROF_UNIQUE_BEGIN FASTPROF_DETAIL_ARGS(__COUNTER__, name, __VA_ARGS__) FASTPROF_UNIQUE_END

#define FASTPROF_DETAIL_KEYS(...)                                                                 \
  FASTPROF_DETAIL_PICK(__VA_ARGS__, FASTPROF_DETAIL_KEYS6, 0, FASTPROF_DETAIL_KEYS5, 0,           \
                       FASTPROF_DETAIL_KEYS4, 0, FASTPROF_DETAIL_KEYS3, 0, FASTPROF_DETAIL_KEYS2, \
                       0, FASTPROF_DETAIL_KEYS1, 0, 0)                                            \
  (__VA_ARGS__)
#define FASTPROF_DETAIL_PICK(a, b, c, d, e, f, g, h, i, j, k, l, pick, ...) pick
#define FASTPROF_DETAIL_KEYS1(k, v) k
#define FASTPROF_DETAIL_KEYS2(k, v, ...) k, FASTPROF_DETAIL_KEYS1(__VA_ARGS__)
#define FASTPROF_DETAIL_KEYS3(k, v, ...) k, FASTPROF_DETAIL_KEYS2(__VA_ARGS__)
#define FASTPROF_DETAIL_KEYS4(k, v, ...) k, FASTPROF_DETAIL_KEYS3(__VA_ARGS__)
#define FASTPROF_DETAIL_KEYS5(k, v, ...) k, FASTPROF_DETAIL_KEYS4(__VA_ARGS__)
#define FASTPROF_DETAIL_KEYS6(k, v, ...) k, FASTPROF_DETAIL_KEYS5(__VA_ARGS__)

#endif  // FASTPROF_DISABLE
