// SPDX-License-Identifier: Apache-2.0
// The options of FASTPROF_RECORD_FUNCTION: inputs, keyword inputs, sequence number, and the like.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

// An argument of one statement and how it becomes a Value. No template knows all the types of a
// call, which would be compiled anew for each.
struct InputReference {
  const void* argument;
  Value (*make)(const void* argument);
};
template <class Type>
inline Value make_input(const void* argument) {
  return to_value(*static_cast<const Type*>(argument));
}
template <class Type>
inline InputReference input_reference(const Type& argument) noexcept {
  const volatile void* address = __builtin_addressof(argument);
  return {const_cast<const void*>(address), &make_input<Type>};
}

// Values, as many as there are arguments.
template <size_t Size>
struct ValueArray {
  using value_type = Value;
  Value values[Size];
  const Value* data() const noexcept { return values; }
  size_t size() const noexcept { return Size; }
};
template <>
struct ValueArray<0> {
  using value_type = Value;
  const Value* data() const noexcept { return nullptr; }
  size_t size() const noexcept { return 0; }
};

// What the macros hand to RecordFunction::before.
template <size_t Size>
struct InputsOption {
  InputReference references[Size];
  mutable ValueArray<Size>
      made{};  // filled when somebody reads the inputs; lives as long as the call
};
template <>
struct InputsOption<0> {};
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
inline InputsOption<sizeof...(Ts)> inputs(const Ts&... values) noexcept {
  return {{input_reference(values)...}};
}
inline InputsOption<0> inputs() noexcept {
  return {};
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
inline ValueArray<sizeof...(Ts)> make_values(const Ts&... values) {
  if constexpr (sizeof...(Ts) == 0)
    return {};
  else
    return {{to_value(values)...}};
}

template <class Make>
inline void set_outputs_lazily(RecordFunction& function, Make make) {
  if (function.needs_outputs()) function.set_outputs(make());
}

namespace options_detail {

struct Collected {
  Span<const Value> inputs;
  Span<const NamedValue> kwinputs;
  int64_t sequence_number = -1;
};

template <size_t Size>
inline void apply(RecordFunction& function, Collected& out, const InputsOption<Size>& option) {
  if (!function.needs_inputs()) return;
  for (size_t i = 0; i < Size; ++i)
    option.made.values[i] = option.references[i].make(option.references[i].argument);
  out.inputs = option.made;
}
inline void apply(RecordFunction&, Collected&, const InputsOption<0>&) noexcept {}
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
    function.before(site, collected.inputs, collected.kwinputs, collected.sequence_number);
  }
}
template <class... Options>
inline void begin_with_options_dynamic(RecordFunction& function, FunctionName name,
                                       const Options&... options) {
  options_detail::Collected collected;
  (options_detail::apply(function, collected, options), ...);
  function.before(name, collected.inputs, collected.kwinputs, collected.sequence_number);
}

FASTPROF_NAMESPACE_END
