// SPDX-License-Identifier: Apache-2.0
// Estimates the floating-point operations of an operator from its inputs, with the same counts as
// PyTorch's profiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/span.hpp"
#include "fastprof/primitives/value_read.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace legacy_detail {

// Product of non-negative factors; 0 ("no estimate") if a factor is negative or the product
// overflows.
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

// Returns 2 M K N, times the batch sizes, for matrices [.., M, K] and [.., K, N] of equal rank:
// inputs `first` and `first` + 1. 0 if the shapes do not match.
inline uint64_t matmul_flops(Span<const Value> inputs, size_t first, size_t rank) {
  const Span<const int64_t> a = shape_of(inputs, first), b = shape_of(inputs, first + 1);
  if (a.size() != rank || b.size() != rank || a[rank - 1] != b[rank - 2]) return 0;
  return FlopProduct().times(2).times(a).times(b[rank - 1]).value();
}

constexpr int64_t kMaxConvolutionSize = int64_t{1} << 31;  // prevents overflow of sums

// Reads a pair given as one int or a list of one or two ints. Returns false for anything else.
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

// Reads the total padding (both sides) of each dimension, given as numbers or by name ("same":
// dilation * (kernel size - 1); other names: 0). Returns false for anything else.
inline bool paddings(Span<const Value> inputs, Span<const int64_t> weight, const int64_t* dilation,
                     int64_t* around) {
  if (inputs.size() > 4 && inputs[4].type() == ValueType::string) {
    const bool same = inputs[4].as_string() == "same";
    for (size_t i = 0; i < 2; ++i) around[i] = same ? dilation[i] * (weight[2 + i] - 1) : 0;
    return true;
  }
  if (inputs.size() > 4 && inputs[4].is_none()) return false;  // a name that was not recorded
  int64_t padding[2];
  if (!int_pair(inputs, 4, 0, padding)) return false;
  for (size_t i = 0; i < 2; ++i) {
    if (padding[i] < 0 || padding[i] > kMaxConvolutionSize) return false;
    around[i] = 2 * padding[i];
  }
  return true;
}

// Estimates aten::conv2d(input [N, Cin, H, W] or [Cin, H, W], weight [Cout, Cin / groups, kh, kw],
// bias, stride, padding, dilation, groups).
inline uint64_t conv2d_flops(Span<const Value> inputs) {
  const Span<const int64_t> input = shape_of(inputs, 0), weight = shape_of(inputs, 1);
  int64_t stride[2], around[2], dilation[2], groups[2];
  if ((input.size() != 3 && input.size() != 4) || weight.size() != 4 ||
      !int_pair(inputs, 3, 1, stride) || !int_pair(inputs, 5, 1, dilation) ||
      !int_pair(inputs, 6, 1, groups) || groups[0] <= 0)
    return 0;
  for (size_t i = 0; i < 2; ++i)
    if (weight[2 + i] < 1 || weight[2 + i] > kMaxConvolutionSize || stride[i] < 1 ||
        dilation[i] < 1 || dilation[i] > kMaxConvolutionSize / 2)
      return 0;
  if (!paddings(inputs, weight, dilation, around)) return 0;
  int64_t out[2];
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = input[input.size() - 2 + i];
    if (size < 0 || size > kMaxConvolutionSize) return 0;
    const int64_t room = size + around[i] - dilation[i] * (weight[2 + i] - 1) - 1;
    if (room < 0) return 0;
    out[i] = room / stride[i] + 1;
  }
  return FlopProduct()
             .times(2)
             .times(input.size() == 4 ? input[0] : 1)
             .times(input[input.size() - 3])
             .times(weight[0])
             .times(weight[2])
             .times(weight[3])
             .times(out[0])
             .times(out[1])
             .value() /
         static_cast<uint64_t>(groups[0]);
}

}  // namespace legacy_detail

// Returns the floating-point operations of one call; 0 if the operator is not counted or the inputs
// do not fit. A multiply-add counts as two.
//   aten::mm, aten::addmm      2 M K N
//   aten::bmm, aten::baddbmm   2 B M K N
//   aten::mul, aten::add       elements of the first input
//   aten::conv2d               2 N Cin Cout kh kw Ho Wo / groups
// Source of the counts: torch.profiler with with_flops (torch 2.13). Additionally supported: conv2d
// without a batch dimension or with padding by name. fastprof.analysis.flops counts identically;
// tests/cases/flops.txt is the common test table.
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
