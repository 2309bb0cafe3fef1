// SPDX-License-Identifier: Apache-2.0
// The options of FASTPROF_RECORD_FUNCTION: inputs, keyword inputs, sequence number, and the like.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

// What the macros hand to RecordFunction::before. References are to the arguments of one statement.
template <class... Ts>
struct InputsOption {
  std::tuple<const Ts&...> values;
};
struct KwinputsOption {
  std::initializer_list<NamedValue> values;
};
struct SequenceNumberOption {
  int64_t value;
};
struct ForwardThreadIdOption {
  uint64_t value;
};
struct OverloadNameOption {
  const char* value;
};
struct DebugHandleOption {
  int64_t value;
};
struct NodeIdOption {
  int64_t value;
};
struct AsyncOption {};

// The inputs of the call, in order; each is turned by to_value.
template <class... Ts>
inline InputsOption<Ts...> inputs(const Ts&... values) noexcept {
  return {std::tuple<const Ts&...>(values...)};
}
// Keyword inputs: kwinputs({{"dim", 1}}).
inline KwinputsOption kwinputs(std::initializer_list<NamedValue> values) noexcept {
  return {values};
}
// Links a forward with its backward call; -1: none.
inline SequenceNumberOption sequence_number(int64_t value) noexcept {
  return {value};
}
inline ForwardThreadIdOption forward_thread_id(uint64_t value) noexcept {
  return {value};
}
// Borrowed: a literal.
inline OverloadNameOption overload_name(const char* value) noexcept {
  return {value};
}
inline DebugHandleOption debug_handle(int64_t value) noexcept {
  return {value};
}
inline NodeIdOption node_id(int64_t value) noexcept {
  return {value};
}
inline AsyncOption async() noexcept {
  return {};
}

// Values of these arguments.
template <class... Ts>
inline std::vector<Value> make_values(const Ts&... values) {
  std::vector<Value> list;
  list.reserve(sizeof...(Ts));
  (list.push_back(to_value(values)), ...);
  return list;
}

template <class Make>
inline void set_outputs_lazily(RecordFunction& function, Make make) {
  if (function.needs_outputs()) function.set_outputs(make());
}

namespace options_detail {

struct Collected {
  std::vector<Value> inputs;
  Span<const NamedValue> kwinputs;
  int64_t sequence_number = -1;
};

template <class... Ts>
inline void apply(RecordFunction& function, Collected& out, const InputsOption<Ts...>& option) {
  if (function.needs_inputs())
    out.inputs =
        std::apply([](const auto&... value) { return make_values(value...); }, option.values);
}
inline void apply(RecordFunction&, Collected& out, const KwinputsOption& option) noexcept {
  out.kwinputs = Span<const NamedValue>(option.values.begin(), option.values.size());
}
inline void apply(RecordFunction&, Collected& out, SequenceNumberOption option) noexcept {
  out.sequence_number = option.value;
}
inline void apply(RecordFunction& function, Collected&, ForwardThreadIdOption option) noexcept {
  function.set_forward_thread_id(option.value);
}
inline void apply(RecordFunction& function, Collected&, OverloadNameOption option) noexcept {
  function.set_overload_name(option.value);
}
inline void apply(RecordFunction& function, Collected&, DebugHandleOption option) noexcept {
  function.set_debug_handle(option.value);
}
inline void apply(RecordFunction& function, Collected&, NodeIdOption option) noexcept {
  function.set_node_id(option.value);
}
inline void apply(RecordFunction& function, Collected&, AsyncOption) noexcept {
  function.set_async();
}

}  // namespace options_detail

// What the macros call when the RecordFunction is active. The name is the site's.
template <class... Options>
inline void begin_with_options(RecordFunction& function, const Site& site, const char*,
                               const Options&... options) {
  if constexpr (sizeof...(Options) != 0) {  // else it was begun with the construction
    options_detail::Collected collected;
    (options_detail::apply(function, collected, options), ...);
    function.before(site, Span<const Value>(collected.inputs), collected.kwinputs,
                    collected.sequence_number);
  }
}
template <class... Options>
inline void begin_with_options_dynamic(RecordFunction& function, FunctionName name,
                                       const Options&... options) {
  options_detail::Collected collected;
  (options_detail::apply(function, collected, options), ...);
  function.before(name, Span<const Value>(collected.inputs), collected.kwinputs,
                  collected.sequence_number);
}

FASTPROF_NAMESPACE_END
