// SPDX-License-Identifier: Apache-2.0
// Value: an argument or result of a RecordFunction, as passed to observers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/device.hpp"
#include "fastprof/primitives/dtype.hpp"
#include "fastprof/primitives/span.hpp"

FASTPROF_NAMESPACE_BEGIN

// Content type of a Value. The numbers are ABI: append only.
enum class ValueType : uint8_t {
  none = 0,
  int64 = 1,
  float64 = 2,
  boolean = 3,
  string = 4,
  list = 5,
  tensor = 6,
};

// Description of a tensor without its elements. Strides count elements and may be empty (unknown);
// pointer is the address of the first element, or null. The two spans are borrowed.
struct TensorDescription {
  Span<const int64_t> shape;
  Span<const int64_t> strides;
  DType dtype = DType::undefined;
  Device device;
  const void* pointer = nullptr;
};

class Value;
template <class Type>
Value to_value(const Type& value);

// Variant of none, integer, double, bool, string, list of Values and tensor description. 16 bytes.
// Strings, lists and tensors are immutable and reference-counted, so copies are cheap. Different
// Values may be used by different threads even if they share content. The layout is ABI: an
// observer in one library reads the Values of another.
class Value {
 public:
  constexpr Value() noexcept : int64_(0), type_(ValueType::none) {}
  constexpr Value(std::nullptr_t) noexcept : Value() {}
  Value(bool value) noexcept : int64_(0), type_(ValueType::boolean) { boolean_ = value; }
  // Integers. An unsigned value above INT64_MAX becomes the nearest double.
  template <class Int,
            std::enable_if_t<std::is_integral_v<Int> && !std::is_same_v<Int, bool>, int> = 0>
  Value(Int value) noexcept : int64_(static_cast<int64_t>(value)), type_(ValueType::int64) {
    if constexpr (std::is_unsigned_v<Int> && sizeof(Int) >= sizeof(int64_t)) {
      if (int64_ < 0) {
        float64_ = static_cast<double>(value);
        type_ = ValueType::float64;
      }
    }
  }
  template <class Float, std::enable_if_t<std::is_floating_point_v<Float>, int> = 0>
  Value(Float value) noexcept : float64_(static_cast<double>(value)), type_(ValueType::float64) {}
  // Strings are copied. A null pointer becomes none.
  Value(const char* text) : Value() {
    if (text != nullptr) *this = Value(std::string_view(text));
  }
  Value(std::string_view text) : type_(ValueType::string) {
    if ((block_ = allocate(text.size() + 1, text.size())) == nullptr) return;
    char* bytes = reinterpret_cast<char*>(block_ + 1);
    if (!text.empty()) __builtin_memcpy(bytes, text.data(), text.size());
    bytes[text.size()] = '\0';
  }
  // std::string and other classes convertible to std::string_view.
  template <class Text, std::enable_if_t<std::is_class_v<Text> &&
                                             std::is_convertible_v<const Text&, std::string_view>,
                                         int> = 0>
  Value(const Text& text) : Value(static_cast<std::string_view>(text)) {}
  // Shape and strides are copied.
  Value(const TensorDescription& tensor) : type_(ValueType::tensor) {
    const size_t dims = tensor.shape.size();
    const size_t strides = tensor.strides.size();
    block_ = allocate(sizeof(TensorBlock) + (dims + strides) * sizeof(int64_t), dims);
    if (block_ == nullptr) return;
    auto* content = new (block_ + 1)
        TensorBlock{tensor.pointer, static_cast<uint32_t>(strides), tensor.device, tensor.dtype};
    auto* words = reinterpret_cast<int64_t*>(content + 1);
    for (size_t i = 0; i < dims; ++i) words[i] = tensor.shape[i];
    for (size_t i = 0; i < strides; ++i) words[dims + i] = tensor.strides[i];
  }
  Value(Span<const Value> values) : type_(ValueType::list) {
    make_list(values.size(), [&](size_t i) { return values[i]; });
  }
  // A container (std::vector, std::array) whose elements to_value accepts.
  template <class List, class Element = typename List::value_type,
            std::enable_if_t<!std::is_convertible_v<const List&, std::string_view> &&
                                 std::is_convertible_v<
                                     decltype(std::declval<const List&>()[size_t{0}]), Element>,
                             int> = 0>
  Value(const List& values) : type_(ValueType::list) {
    make_list(values.size(),
              [&](size_t i) { return to_value(static_cast<const Element&>(values[i])); });
  }
  // Deleted, so that other pointers do not convert to bool silently.
  template <class Type, std::enable_if_t<!std::is_same_v<std::remove_cv_t<Type>, char>, int> = 0>
  Value(Type*) = delete;

  static Value list(std::initializer_list<Value> values) {
    return Value(Span<const Value>(values.begin(), values.size()));
  }

  Value(const Value& other) noexcept : int64_(other.int64_), type_(other.type_) {
    if (shared()) __atomic_fetch_add(&block_->references, 1, __ATOMIC_RELAXED);
  }
  Value(Value&& other) noexcept : int64_(other.int64_), type_(other.type_) {
    other.type_ = ValueType::none;
  }
  Value& operator=(Value other) noexcept {
    std::swap(int64_, other.int64_);
    std::swap(type_, other.type_);
    return *this;
  }
  ~Value() {
    if (shared()) release();
  }

  ValueType type() const noexcept { return type_; }
  bool is_none() const noexcept { return type_ == ValueType::none; }
  bool is_tensor() const noexcept { return type_ == ValueType::tensor; }

  // Return the content. Raise ValueError if it is of another type than type(); nothing is
  // converted. Include value_read.hpp to use them (fastprof.hpp and session.hpp do).
  inline int64_t as_int64() const;
  inline double as_float64() const;
  inline bool as_bool() const;
  // NUL-terminated. Valid while some Value shares the string.
  inline std::string_view as_string() const;
  inline Span<const Value> as_list() const;
  inline TensorDescription as_tensor() const;

  // Equal type and content; tensors compare every field, doubles by ==.
  friend bool operator==(const Value& a, const Value& b) noexcept { return equal(a, b); }
  friend bool operator!=(const Value& a, const Value& b) noexcept { return !equal(a, b); }

 private:
  friend class RecordFunction;  // reads its own list of outputs

  // Header of shared content. Whoever drops the last reference, possibly another library than the
  // one that allocated it, frees it with std::free.
  struct Block {
    uint32_t references;
    uint32_t reserved;
    uint64_t count;
  };
  struct TensorBlock {
    const void* pointer;
    uint32_t strides;
    Device device;
    DType dtype;
  };

  // Accessors without a type check.
  std::string_view string() const noexcept {
    return {reinterpret_cast<const char*>(block_ + 1), static_cast<size_t>(block_->count)};
  }
  Span<const Value> list_values() const noexcept {
    return Span<const Value>(reinterpret_cast<const Value*>(block_ + 1),
                             static_cast<size_t>(block_->count));
  }
  TensorDescription tensor() const noexcept {
    const auto* content = reinterpret_cast<const TensorBlock*>(block_ + 1);
    const auto* words = reinterpret_cast<const int64_t*>(content + 1);
    const auto dims = static_cast<size_t>(block_->count);
    return {{words, dims},
            {words + dims, content->strides},
            content->dtype,
            content->device,
            content->pointer};
  }

  bool shared() const noexcept { return type_ >= ValueType::string; }

  // Allocates a block; on failure returns null and makes this Value none, so that the profiled
  // program does not fail. Uses the builtins to avoid including <cstdlib>.
  Block* allocate(size_t content_bytes, size_t count) noexcept {
    void* memory = __builtin_malloc(sizeof(Block) + content_bytes);
    if (memory != nullptr) return new (memory) Block{1, 0, count};
    int64_ = 0;
    type_ = ValueType::none;
    return nullptr;
  }

  template <class Make>
  void make_list(size_t count, Make make) {
    // Frees the elements made so far if a conversion throws.
    struct Partial {
      Block* block;
      ~Partial() {
        if (block != nullptr) destroy_list(block);
      }
    } partial{allocate(count * sizeof(Value), 0)};
    if (partial.block == nullptr) return;
    auto* values = reinterpret_cast<Value*>(partial.block + 1);
    for (size_t i = 0; i < count; ++i) {
      new (values + i) Value(make(i));
      partial.block->count = i + 1;
    }
    block_ = partial.block;
    partial.block = nullptr;
  }
  static void destroy_list(Block* block) noexcept {
    auto* values = reinterpret_cast<Value*>(block + 1);
    for (size_t i = 0; i < block->count; ++i) values[i].~Value();
    __builtin_free(block);
  }

  // Acquire-release, so that the last owner sees the other owners' reads as done.
  void release() noexcept {
    if (__atomic_fetch_sub(&block_->references, 1, __ATOMIC_ACQ_REL) != 1) return;
    if (type_ == ValueType::list)
      destroy_list(block_);
    else
      __builtin_free(block_);
  }

  inline void check(ValueType wanted) const;

  static bool equal(const Value& a, const Value& b) noexcept {
    if (a.type_ != b.type_) return false;
    switch (a.type_) {
      case ValueType::none:
        return true;
      case ValueType::int64:
        return a.int64_ == b.int64_;
      case ValueType::float64:
        return a.float64_ == b.float64_;
      case ValueType::boolean:
        return a.boolean_ == b.boolean_;
      case ValueType::string:
        return a.string() == b.string();
      case ValueType::list:
        return a.list_values() == b.list_values();
      case ValueType::tensor: {
        const TensorDescription x = a.tensor(), y = b.tensor();
        return x.shape == y.shape && x.strides == y.strides && x.dtype == y.dtype &&
               x.device == y.device && x.pointer == y.pointer;
      }
    }
    return false;
  }

  union {
    int64_t int64_;
    double float64_;
    bool boolean_;
    Block* block_;
  };
  ValueType type_;
};
static_assert(sizeof(Value) == 16, "the layout of Value is ABI");

// A keyword argument. The name is borrowed.
struct NamedValue {
  std::string_view name;
  Value value;
};

// Converts an argument to a Value. For your own type, overload `fastprof::Value to_value(const
// Yours&)` in its namespace; argument-dependent lookup finds it.
template <class Type>
inline Value to_value(const Type& value) {
  return Value(value);
}

FASTPROF_NAMESPACE_END
