# SPDX-License-Identifier: Apache-2.0
"""C++ source that reads libtorch's layout from torch headers, for versions that the tables do not list.

Each of three sections is a function whose numbers end up as text in the object file, so nothing is
linked or loaded. Everything else that the native module assumes is asserted, so that headers which
differ there do not compile. headers.py runs the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["FIELDS", "INPUTS", "MEMORY", "SECTIONS", "numbers_in", "source_of"]


class Section(NamedTuple):
    """Source of one probe function. includes: headers; numbers: field -> C++ expression that it emits.

    checks: declarations and static_asserts before the function; first: statements at its begin.
    """

    includes: tuple[str, ...]
    numbers: dict[str, str]
    checks: str
    first: str = ""


# What standard_library.hpp of the native part assumes of libstdc++, and of libc++, whose strings have two layouts.
_STANDARD_LIBRARY = """
#if defined(_LIBCPP_VERSION)
constexpr unsigned string_bytes = 24, map_bytes = 40, node_bytes = 56;
template <class Map>
using node_of = typename Map::__node;
#elif defined(__GLIBCXX__)
constexpr unsigned string_bytes = 32, map_bytes = 56, node_bytes = 64;
template <class Map>
using node_of = std::__detail::_Hash_node<typename Map::value_type, true>;
#else
#error "the standard library is neither libstdc++ nor libc++"
#endif
"""

# Numbers of torch_adapter::Layout; asserts those of CallbackView and ObserverContextView.
_OPS = Section(
    includes=("ATen/record_function.h", "ATen/core/function_schema.h"),
    numbers={
        "size": "sizeof(at::RecordFunction)",
        "thread_id": "offsetof(at::RecordFunction, step_callbacks_) + offsetof(at::StepCallbacks, thread_id_)",
        "scope": "offsetof(at::RecordFunction, step_callbacks_) + offsetof(at::StepCallbacks, scope_)",
        "sequence_nr": "offsetof(at::RecordFunction, sequence_nr_)",
        "forward_thread_id": "offsetof(at::RecordFunction, fwd_thread_id_)",
        "handle": "offsetof(at::RecordFunction, handle_)",
        "is_async": "offsetof(at::RecordFunction, is_async_)",
        "name": "name",
    },
    checks=_STANDARD_LIBRARY
    + """
// 0 where a name is of another type: libtorch is asked then.
using Text = std::string;
using Operator = c10::OperatorName;
template <class Function, class Schema, class = void>
constexpr unsigned long long place_of_name = 0;
template <class Function, class Schema>
constexpr unsigned long long
    place_of_name<Function, Schema, std::void_t<decltype(Function::fn_), decltype(Schema::name_)>> =
        std::is_same_v<decltype(Function::fn_), std::variant<Text, std::reference_wrapper<const Schema>>> &&
                std::is_same_v<decltype(Schema::name_), Operator> && offsetof(Schema, name_) == 0 &&
                std::is_same_v<decltype(Operator::name), Text> && offsetof(Operator, name) == 0 &&
                sizeof(Function::fn_) == string_bytes + 8 && sizeof(Text) == string_bytes
            ? offsetof(Function, fn_)
            : 0;
constexpr auto name = place_of_name<at::RecordFunction, c10::FunctionSchema>;
static_assert(sizeof(void*) == 8, "64 bits");
static_assert(sizeof(at::RecordFunctionCallback) == 40, "the callback has another size");
static_assert(offsetof(at::RecordFunctionCallback, start_) == 0, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, end_) == 8, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, sampling_prob_) == 16, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, scopes_) == 24, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, needs_inputs_) == 34, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, needs_outputs_) == 35, "the callback is laid out otherwise");
static_assert(offsetof(at::RecordFunctionCallback, needs_ids_) == 36, "the callback is laid out otherwise");
static_assert(sizeof(at::ObserverContext) == 8, "an observer context has members");
static_assert(sizeof(at::RecordScope) == 1, "a scope has another size");
""",
)

# Numbers of torch_adapter::InputLayout; asserts those of ValueView, and what standard_library.hpp assumes.
_INPUTS = Section(
    includes=("ATen/record_function.h", "ATen/core/ivalue.h", "c10/core/TensorImpl.h"),
    numbers={
        "inputs": "offsetof(at::RecordFunction, inputs_)",
        "kwinputs": "offsetof(at::RecordFunction, kwinputs_)",
        "tag_tensor": "c10::IValue::Tag::Tensor",
        "tag_real": "c10::IValue::Tag::Double",
        "tag_complex": "c10::IValue::Tag::ComplexDouble",
        "tag_integer": "c10::IValue::Tag::Int",
        "tag_boolean": "c10::IValue::Tag::Bool",
        "tag_text": "c10::IValue::Tag::String",
        "tag_list": "c10::IValue::Tag::GenericList",
        "tensor_size": "sizeof(Impl)",
        "sizes": "offsetof(Impl, sizes_and_strides_) + offsetof(Sizes, size_)",
        "inline_dims": "sizeof(Sizes::inlineStorage_) / sizeof(int64_t) / 2",
        "dtype": "offsetof(Impl, data_type_) + offsetof(caffe2::TypeMeta, index_)",
        "key_set": "offsetof(Impl, key_set_) + offsetof(c10::DispatchKeySet, repr_)",
        "symbolic": "offsetof(Impl, key_set_) - 8 + (bits == 0 ? 0 : __builtin_ctzll(bits)) / 8",
        "symbolic_bits": "bits == 0 ? 0 : 1ull << __builtin_ctzll(bits) % 8",
        "nested_keys": "c10::DispatchKeySet(c10::DispatchKey::NestedTensor).repr_",
        "unstrided_keys": "(c10::sparse_ks | c10::sparse_csr_ks | c10::mkldnn_ks).repr_",
        "list_items": "offsetof(List, list)",
        "list_type": "offsetof(List, elementType) + offsetof(c10::TypePtr, repr_)",
        "type_kind": "offsetof(c10::Type, kind_)",
        "kind_tensor": "c10::TypeKind::TensorType",
        "text": "offsetof(c10::ivalue::ConstantString, str_)",
        "complex": "offsetof(c10::ivalue::ComplexHolder, val)",
    },
    checks=_STANDARD_LIBRARY
    + """
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the order of bytes is another"
#endif
using Impl = c10::TensorImpl;
using Sizes = c10::impl::SizesAndStrides;
using List = c10::detail::ListImpl;
using Inputs = c10::ArrayRef<const c10::IValue>;
using Keywords = std::unordered_map<std::string, c10::IValue>;
using Keyword = Keywords::value_type;
static_assert(std::is_same_v<decltype(at::RecordFunction::inputs_), Inputs>, "inputs are of another type");
static_assert(sizeof(Inputs) == 16 && offsetof(Inputs, Data) == 0 && offsetof(Inputs, Length) == 8,
              "inputs are laid out otherwise");
static_assert(std::is_same_v<decltype(at::RecordFunction::kwinputs_), Keywords>, "keyword inputs are of another type");
static_assert(sizeof(Keywords) == map_bytes, "a map is laid out otherwise");
static_assert(sizeof(node_of<Keywords>) == node_bytes && offsetof(Keyword, second) == string_bytes,
              "a node of a map is laid out otherwise");
static_assert(sizeof(std::string) == string_bytes, "texts have the older string ABI");
static_assert(sizeof(c10::IValue) == 16 && offsetof(c10::IValue, payload) == 0 && offsetof(c10::IValue, tag) == 8 &&
                  sizeof(c10::IValue::Tag) == 4 && static_cast<int>(c10::IValue::Tag::None) == 0,
              "a value is laid out otherwise");
static_assert(sizeof(at::Tensor) == 8, "a tensor is no address");
static_assert(sizeof(c10::UndefinedTensorImpl) == sizeof(Impl), "an undefined tensor has members");
static_assert(std::is_same_v<decltype(Impl::sizes_and_strides_), Sizes>, "sizes are of another type");
static_assert(sizeof(Sizes::size_) == 8 && offsetof(Sizes, inlineStorage_) == offsetof(Sizes, size_) + 8 &&
                  offsetof(Sizes, outOfLineStorage_) == offsetof(Sizes, inlineStorage_) &&
                  sizeof(*Sizes::outOfLineStorage_) == 8,
              "sizes are laid out otherwise");
static_assert(sizeof(caffe2::TypeMeta::index_) == 2, "a dtype has another size");
static_assert(sizeof(c10::DispatchKeySet::repr_) == 8, "a set of keys has another size");
static_assert(std::is_same_v<decltype(List::list), std::vector<c10::IValue>> && sizeof(List::list) == 24,
              "a list is laid out otherwise");
static_assert(sizeof(c10::TypePtr) == 16, "an address of a type has another size");
static_assert(sizeof(c10::Type::kind_) == 4, "the kind of a type has another size");
static_assert(std::is_same_v<std::remove_const_t<decltype(c10::ivalue::ConstantString::str_)>, std::string>,
              "texts are of another type");
static_assert(sizeof(c10::ivalue::ComplexHolder::val) == 16, "a complex number has another size");
""",
    # A bit field has no offset: find the bit that a store into zeroed memory sets; the optimiser folds it.
    first="""
  alignas(Impl) unsigned char room[sizeof(Impl)];
  __builtin_memset(room, 0, sizeof room);
  reinterpret_cast<Impl*>(room)->has_symbolic_sizes_strides_ = true;
  unsigned long long bits;
  __builtin_memcpy(&bits, room + offsetof(Impl, key_set_) - 8, 8);
""",
)

# Numbers of torch_adapter::DebugInfoKinds; asserts DebugInfoLink, MemoryReportingView, DeviceView, and Reporter of
# memory_reporter.cpp. In newer torch versions a kind is an address; earlier it was an enumerator.
_MEMORY = Section(
    includes=(
        "c10/util/ThreadLocalDebugInfo.h",
        "c10/core/Allocator.h",
        "torch/csrc/profiler/orchestration/observer.h",
    ),
    numbers={
        "kind_bytes": "sizeof(c10::DebugInfoKind)",
        "profiler_state": "number_of_profiler_state<c10::DebugInfoKind>()",
    },
    checks="""
using Link = c10::ThreadLocalDebugInfo;
using Base = c10::DebugInfoBase;
using Told = c10::MemoryReportingInfoBase;
using State = torch::profiler::impl::ProfilerStateBase;
template <class Kind>
constexpr unsigned number_of_profiler_state() {
  static_assert(std::is_enum_v<Kind> ? sizeof(Kind) == 1 : sizeof(Kind) == 8, "a kind has another size");
  static_assert(std::is_trivially_copyable_v<Kind>, "a kind is not handed over in a register");
  if constexpr (std::is_enum_v<Kind>) {
    static_assert(static_cast<unsigned>(Kind::PROFILER_STATE) != 0, "PROFILER_STATE is the first kind");
    return static_cast<unsigned>(Kind::PROFILER_STATE);
  } else {
    return 0;
  }
}
static_assert(sizeof(Base) == 8 && std::has_virtual_destructor_v<Base>, "debug info has members");
static_assert(sizeof(Told) == 8, "a memory reporter has members");
static_assert(sizeof(Link) == 40 && offsetof(Link, info_) == 0 && offsetof(Link, kind_) == 16 &&
                  offsetof(Link, parent_info_) == 24 &&
                  std::is_same_v<decltype(Link::info_), std::shared_ptr<Base>> &&
                  std::is_same_v<decltype(Link::parent_info_), std::shared_ptr<Link>>,
              "a link of debug info is laid out otherwise");
static_assert(sizeof(c10::Device) == 2 && std::is_trivially_copyable_v<c10::Device> &&
                  offsetof(c10::Device, type_) == 0 && offsetof(c10::Device, index_) == 1,
              "a device is laid out otherwise");
static_assert(std::is_same_v<decltype(&Told::reportMemoryUsage),
                             void (Told::*)(void*, int64_t, size_t, size_t, c10::Device)> &&
                  std::is_same_v<decltype(&Told::reportOutOfMemory),
                                 void (Told::*)(int64_t, size_t, size_t, c10::Device)> &&
                  std::is_same_v<decltype(&Told::memoryProfilingEnabled), bool (Told::*)() const>,
              "a memory reporter is called otherwise");
static_assert(std::is_base_of_v<Told, State> && sizeof(State) <= 4096, "the state of a profiler is larger");
static_assert(static_cast<int>(torch::profiler::impl::ActiveProfilerType::NONE) == 0, "0 is a profiler");
// In the order that the native part declares.
struct Order {
  virtual ~Order();
  virtual void usage();
  virtual void out_of_memory();
  virtual void enabled();
  virtual void spare_0();
  virtual void spare_1();
  virtual void spare_2();
  virtual void spare_3();
  virtual void spare_4();
  virtual void spare_5();
  virtual void spare_6();
  virtual void spare_7();
};
template <class F>
inline unsigned long long place_of(F function) {
  unsigned long long words[2];
  static_assert(sizeof function == sizeof words, "pointers to members are laid out otherwise");
  __builtin_memcpy(words, &function, sizeof words);
  return words[0];
}
void order_differs() __attribute__((error("a memory reporter's functions are in another order")));
void many_functions() __attribute__((error("the state of a profiler has more functions")));
""",
    first="""
  if (place_of(&Told::reportMemoryUsage) != place_of(&Order::usage) ||
      place_of(&Told::reportOutOfMemory) != place_of(&Order::out_of_memory) ||
      place_of(&Told::memoryProfilingEnabled) != place_of(&Order::enabled))
    order_differs();
  if (place_of(&State::profilerType) > place_of(&Order::spare_7)) many_functions();
""",
)

SECTIONS = {"ops": _OPS, "inputs": _INPUTS, "memory": _MEMORY}
FIELDS = tuple(_OPS.numbers)
INPUTS = tuple(_INPUTS.numbers)
MEMORY = tuple(_MEMORY.numbers)

_ASK = """\
// The number as text, so that it can be read out of an object file of any format.
#define FASTPROF_ASK(place, value) \\
  asm volatile(".ascii \\"fastprof:" place "=%0;\\"" : : "i"(static_cast<unsigned long long>(value)))
"""


def source_of(names: Iterable[str]) -> str:
    """Return C++20 source that emits the sections' numbers; needs -O1 and -fno-access-control."""
    parts = ["#include <cstddef>", "#include <type_traits>"]
    sections = {name: SECTIONS[name] for name in names}
    for header in dict.fromkeys(h for section in sections.values() for h in section.includes):
        parts.append(f"#include <{header}>")
    parts.append(_ASK)
    for name, section in sections.items():
        parts.append(f"namespace fastprof_{name} {{{section.checks}void ask() {{{section.first}")
        for field, expression in section.numbers.items():
            parts.append(f'  FASTPROF_ASK("{name}.{field}", {expression});')
        parts.append("}\n}")
    return "\n".join(parts) + "\n"


def numbers_in(result: bytes, name: str) -> list[int] | None:
    """Extract a section's numbers, in its order, from an object file; None if one is missing."""
    numbers: list[int] = []
    for field in SECTIONS[name].numbers:
        found = re.search(rb"fastprof:%s=[$#]?(-?\d+);" % f"{name}.{field}".encode(), result)
        if found is None:
            return None
        numbers.append(int(found.group(1)) % 2**64)
    return numbers
