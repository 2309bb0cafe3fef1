// SPDX-License-Identifier: Apache-2.0
// The floating-point operations of an operator, estimated from its inputs as PyTorch's profiler
// counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/span.hpp"
#include "fastprof/primitives/value_read.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace legacy_detail {

// A product of non-negative factors that turns into 0 ("not estimated") on a negative factor or on
// overflow.
class FlopProduct {
 public:
  FlopProduct& times(int64_t factor) noexcept {
    if (factor < 0 || __builtin_mul_overflow(value_, static_cast<uint64_t>(factor), &value_))
      valid_ = false;
    return *this;
  }
  FlopProduct& times(Span<const int64_t> factors) noexcept {
    for (const int64_t factor : factors) times(factor);
    return *this;
  }
  uint64_t value() const noexcept { return valid_ ? value_ : 0; }

 private:
  uint64_t value_ = 1;
  bool valid_ = true;
};

inline Span<const int64_t> shape_of(Span<const Value> inputs, size_t index) {
  if (index >= inputs.size() || !inputs[index].is_tensor()) return {};
  return inputs[index].as_tensor().shape;
}

// 2 M K N, and times the batch: matrices [.., M, K] and [.., K, N] of equal rank at `first` and the
// input after it.
inline uint64_t matmul_flops(Span<const Value> inputs, size_t first, size_t rank) {
  const Span<const int64_t> a = shape_of(inputs, first), b = shape_of(inputs, first + 1);
  if (a.size() != rank || b.size() != rank || a[rank - 1] != b[rank - 2]) return 0;
  return FlopProduct().times(2).times(a).times(b[rank - 1]).value();
}

// A pair given as one int or as a list of one or two; false for anything else.
inline bool int_pair(Span<const Value> inputs, size_t index, int64_t otherwise, int64_t* pair) {
  pair[0] = pair[1] = otherwise;
  if (index >= inputs.size() || inputs[index].is_none()) return true;
  if (inputs[index].type() == ValueType::int64) {
    pair[0] = pair[1] = inputs[index].as_int64();
    return true;
  }
  if (inputs[index].type() != ValueType::list) return false;
  const Span<const Value> items = inputs[index].as_list();
  if (items.size() != 1 && items.size() != 2) return false;
  for (const Value& item : items)
    if (item.type() != ValueType::int64) return false;
  pair[0] = items[0].as_int64();
  pair[1] = items[items.size() - 1].as_int64();
  return true;
}

// aten::conv2d(input [N, Cin, H, W], weight [Cout, Cin / groups, kh, kw], bias, stride, padding,
// dilation, groups).
inline uint64_t conv2d_flops(Span<const Value> inputs) {
  const Span<const int64_t> input = shape_of(inputs, 0), weight = shape_of(inputs, 1);
  int64_t stride[2], padding[2], dilation[2], groups[2];
  if (input.size() != 4 || weight.size() != 4 || !int_pair(inputs, 3, 1, stride) ||
      !int_pair(inputs, 4, 0, padding) || !int_pair(inputs, 5, 1, dilation) ||
      !int_pair(inputs, 6, 1, groups) || groups[0] <= 0)
    return 0;
  int64_t out[2];
  constexpr int64_t limit = int64_t{1} << 31;  // keeps the sums below free of overflow
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = input[2 + i], kernel = weight[2 + i];
    if (size < 0 || size > limit || kernel < 1 || kernel > limit || stride[i] < 1 ||
        padding[i] < 0 || padding[i] > limit || dilation[i] < 1 || dilation[i] > limit / 2)
      return 0;
    const int64_t room = size + 2 * padding[i] - dilation[i] * (kernel - 1) - 1;
    if (room < 0) return 0;
    out[i] = room / stride[i] + 1;
  }
  return FlopProduct()
             .times(2)
             .times(input[0])
             .times(input[1])
             .times(weight[0])
             .times(weight[2])
             .times(weight[3])
             .times(out[0])
             .times(out[1])
             .value() /
         static_cast<uint64_t>(groups[0]);
}

}  // namespace legacy_detail

// Operations of one call; 0 when the operator is not counted or its inputs do not allow it. A
// multiply-add is two.
//   aten::mm, aten::addmm     2 M K N                      aten::mul, aten::add   elements of the
//   first input aten::bmm, aten::baddbmm  2 B M K N                    aten::conv2d           2 N
//   Cin Cout kh kw Ho Wo / groups
// Source of the counts: what torch.profiler reports with with_flops (torch 2.13).
inline uint64_t estimate_flops(std::string_view name, Span<const Value> inputs) {
  if (name == "aten::mm") return legacy_detail::matmul_flops(inputs, 0, 2);
  if (name == "aten::addmm") return legacy_detail::matmul_flops(inputs, 1, 2);
  if (name == "aten::bmm") return legacy_detail::matmul_flops(inputs, 0, 3);
  if (name == "aten::baddbmm") return legacy_detail::matmul_flops(inputs, 1, 3);
  if (name == "aten::conv2d") return legacy_detail::conv2d_flops(inputs);
  if (name != "aten::mul" && name != "aten::add") return 0;
  if (inputs.empty() || !inputs[0].is_tensor()) return 0;
  return legacy_detail::FlopProduct().times(inputs[0].as_tensor().shape).value();
}

FASTPROF_NAMESPACE_END
