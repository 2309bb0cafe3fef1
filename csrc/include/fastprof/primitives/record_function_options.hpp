// SPDX-License-Identifier: Apache-2.0
// Options of FASTPROF_RECORD_FUNCTION: inputs, keyword inputs, sequence number and others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/record_function.hpp"

FASTPROF_NAMESPACE_BEGIN

// Type-erased reference to an argument, and the function that converts it to a Value. Type erasure
// avoids a template over all argument types of a call, which would be instantiated for each call.
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

// Fixed-size array of Values, one per argument.
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

// Option types that the macros pass to RecordFunction::before.
template <size_t Size>
struct InputsOption {
  InputReference references[Size];
  // Filled on demand when the inputs are read; lives as long as the call.
  mutable ValueArray<Size> made{};
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

// Inputs of the call, in order; each is converted by to_value.
template <class... Ts>
inline InputsOption<sizeof...(Ts)> inputs(const Ts&... values) noexcept {
  return {{input_reference(values)...}};
}
inline InputsOption<0> inputs() noexcept {
  return {};
}
// Keyword inputs, for example kwinputs({{"dim", 1}}).
inline KwinputsOption kwinputs(std::initializer_list<NamedValue> values) noexcept {
  return {values};
}
// Links a forward call with its backward call; -1: none.
inline SequenceNumberOption sequence_number(int64_t value) noexcept {
  return {value};
}
// Sets RecordFunction::forward_thread_id.
inline ForwardThreadIdOption forward_thread_id(uint64_t value) noexcept {
  return {value};
}
// Sets RecordFunction::overload_name. Borrowed: pass a literal.
inline OverloadNameOption overload_name(const char* value) noexcept {
  return {value};
}
// Sets RecordFunction::debug_handle.
inline DebugHandleOption debug_handle(int64_t value) noexcept {
  return {value};
}
// Sets RecordFunction::node_id.
inline NodeIdOption node_id(int64_t value) noexcept {
  return {value};
}
// Marks the call as asynchronous.
inline AsyncOption async() noexcept {
  return {};
}

// Converts the arguments to Values.
template <class... Ts>
inline ValueArray<sizeof...(Ts)> make_values(const Ts&... values) {
  if constexpr (sizeof...(Ts) == 0)
    return {};
  else
    return {{to_value(values)...}};
}

// Sets make()'s result as the outputs, if a callback needs outputs.
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

// Called by the macros if the RecordFunction is active. The name is the site's.
template <class... Options>
inline void begin_with_options(RecordFunction& function, const Site& site, const char*,
                               const Options&... options) {
  if constexpr (sizeof...(Options) != 0) {  // without options, the constructor has already begun it
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
