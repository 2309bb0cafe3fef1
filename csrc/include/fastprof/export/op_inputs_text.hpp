// SPDX-License-Identifier: Apache-2.0
// Formats op inputs as trace args with Kineto's names and syntax: "Input Dims", "Input Strides",
// "Input type", "Concrete Inputs"; keyword inputs under their own names.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/payload/op_inputs/op_inputs.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns the name of an element type as in PyTorch's traces, by c10::ScalarType; empty for an
// unknown number. Static text.
inline const char* kineto_dtype_name(uint16_t dtype) noexcept {
  constexpr const char* names[] = {"unsigned char",
                                   "signed char",
                                   "short int",
                                   "int",
                                   "long int",
                                   "c10::Half",
                                   "float",
                                   "double",
                                   "c10::complex<c10::Half>",
                                   "c10::complex<float>",
                                   "c10::complex<double>",
                                   "bool",
                                   "c10::qint8",
                                   "c10::quint8",
                                   "c10::qint32",
                                   "c10::BFloat16",
                                   "c10::quint4x2",
                                   "c10::quint2x4",
                                   "c10::bits1x8",
                                   "c10::bits2x4",
                                   "c10::bits4x2",
                                   "c10::bits8",
                                   "c10::bits16",
                                   "c10::Float8_e5m2",
                                   "c10::Float8_e4m3fn",
                                   "c10::Float8_e5m2fnuz",
                                   "c10::Float8_e4m3fnuz",
                                   "short unsigned int",
                                   "unsigned int",
                                   "long unsigned int",
                                   "c10::dummy_uint1_7_t<1>",
                                   "c10::dummy_uint1_7_t<2>",
                                   "c10::dummy_uint1_7_t<3>",
                                   "c10::dummy_uint1_7_t<4>",
                                   "c10::dummy_uint1_7_t<5>",
                                   "c10::dummy_uint1_7_t<6>",
                                   "c10::dummy_uint1_7_t<7>",
                                   "c10::dummy_int1_7_t<1>",
                                   "c10::dummy_int1_7_t<2>",
                                   "c10::dummy_int1_7_t<3>",
                                   "c10::dummy_int1_7_t<4>",
                                   "c10::dummy_int1_7_t<5>",
                                   "c10::dummy_int1_7_t<6>",
                                   "c10::dummy_int1_7_t<7>",
                                   "c10::Float8_e8m0fnu",
                                   "c10::Float4_e2m1fn_x2"};
  return dtype < sizeof names / sizeof names[0] ? names[dtype] : "";
}

// JSON texts of the inputs of one op.
struct OpInputTexts {
  std::vector<std::pair<std::string_view, std::string>> inputs;  // empty if the op has no inputs
  std::vector<std::pair<std::string, std::string>> keywords;     // names are not escaped
};

namespace op_inputs_detail {

// Longer tensor lists show this many tensors, "..." and the last one.
constexpr size_t kShownTensors = 30;

inline void append_numbers(std::string& out, const std::vector<int64_t>& numbers) {
  out += '[';
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i != 0) out += ", ";
    out += std::to_string(numbers[i]);
  }
  out += ']';
}

// Appends the sizes or strides of a tensor or tensor list; [] for other inputs.
inline void append_sizes(std::string& out, const OpInput& input, bool strides) {
  if (input.kind != InputKind::tensor_list) {
    append_numbers(out, strides ? input.strides : input.sizes);
    return;
  }
  out += '[';
  const size_t count = input.items.size();
  const bool cut = count < input.given;
  for (size_t i = 0; i < count; ++i) {
    if (i != 0) out += ", ";
    if (i == kShownTensors && i + 1 < count) {
      out += "\"...\", ";
      i = count - 1;
    }
    append_numbers(out, strides ? input.items[i].strides : input.items[i].sizes);
  }
  if (cut) out += count == 0 ? "\"...\"" : ", \"...\"";
  out += ']';
}

// As PyTorch prints values: whole numbers below 1e10 with a trailing point, others with 17
// significant digits.
inline void append_real(std::string& out, double value) {
  if (std::isfinite(value) && (value == 0 || std::isnormal(value)) && std::fabs(value) < 1e10 &&
      value == std::trunc(value)) {
    out += std::to_string(static_cast<long long>(value)) + ".";
  } else {
    append_digits(out, value);
  }
}

// Appends a value as in "Concrete Inputs"; nothing for tensors and other kinds without a value.
inline void append_value(std::string& out, const OpInput& input) {
  switch (input.kind) {
    case InputKind::integer:
      out += std::to_string(input.integer);
      return;
    case InputKind::boolean:
      out += input.integer != 0 ? "True" : "False";
      return;
    case InputKind::real:
      append_real(out, input.real);
      return;
    case InputKind::complex:
      append_real(out, input.real);
      out += std::signbit(input.imaginary) ? '-' : '+';
      append_real(out, std::fabs(input.imaginary));
      out += 'j';
      return;
    case InputKind::list:
      out += '[';
      for (size_t i = 0; i < input.items.size(); ++i) {
        if (i != 0) out += ", ";
        append_value(out, input.items[i]);
      }
      out += ']';
      return;
    case InputKind::other:
    case InputKind::tensor:
    case InputKind::undefined:
    case InputKind::tensor_list:
    case InputKind::text:
      return;
  }
}

// Returns the "Input type" of an input; empty if it has none.
inline const char* type_name(const OpInput& input) noexcept {
  switch (input.kind) {
    case InputKind::tensor:
      return kineto_dtype_name(input.dtype);
    case InputKind::integer:
    case InputKind::real:
    case InputKind::boolean:
    case InputKind::complex:
      return "Scalar";
    case InputKind::list:
      return "ScalarList";
    case InputKind::tensor_list:
      return "TensorList";
    case InputKind::other:
    case InputKind::undefined:
    case InputKind::text:
      return "";
  }
  return "";
}

// Appends a keyword's value; returns false if traces do not show values of its kind.
inline bool append_keyword(std::string& out, const OpInput& input) {
  switch (input.kind) {
    case InputKind::integer:
      out += std::to_string(input.integer);
      return true;
    case InputKind::boolean:
      out += input.integer != 0 ? "true" : "false";
      return true;
    case InputKind::real:
      append_json_double(out, input.real);
      return true;
    case InputKind::text:
      append_json_string(out, input.cut ? input.text + "..." : input.text);
      return true;
    case InputKind::list: {
      out += '[';
      for (size_t i = 0; i < input.items.size(); ++i) {
        if (i != 0) out += ", ";
        if (!append_keyword(out, input.items[i])) out += "null";
      }
      out += ']';
      return true;
    }
    case InputKind::other:
    case InputKind::tensor:
    case InputKind::undefined:
    case InputKind::complex:
    case InputKind::tensor_list:
      return false;
  }
  return false;
}

}  // namespace op_inputs_detail

// Formats the contents of a DetailType::op_inputs block. Malformed parts are omitted.
inline OpInputTexts op_input_texts(const uint64_t* words, size_t count) {
  using namespace op_inputs_detail;
  OpInputs decoded;
  decode_op_inputs(words, count, decoded);
  OpInputTexts texts;
  if (!decoded.inputs.empty() || decoded.given != 0) {
    std::string dims, strides, types, values;
    for (std::string* text : {&dims, &strides, &types, &values}) *text += '[';
    std::string value;
    for (const OpInput& input : decoded.inputs) {
      if (&input != &decoded.inputs.front())
        for (std::string* text : {&dims, &strides, &types, &values}) *text += ", ";
      append_sizes(dims, input, false);
      append_sizes(strides, input, true);
      append_json_string(types, type_name(input));
      value.clear();
      append_value(value, input);
      append_json_string(values, value);
    }
    if (decoded.inputs.size() < decoded.given)  // the block had no room for the rest
      for (std::string* text : {&dims, &strides, &types, &values})
        *text += decoded.inputs.empty() ? "\"...\"" : ", \"...\"";
    for (std::string* text : {&dims, &strides, &types, &values}) *text += ']';
    texts.inputs = {{"Input Dims", std::move(dims)},
                    {"Input Strides", std::move(strides)},
                    {"Input type", std::move(types)},
                    {"Concrete Inputs", std::move(values)}};
  }
  for (const auto& [name, input] : decoded.keywords) {
    std::string value;
    if (append_keyword(value, input)) texts.keywords.emplace_back(name, std::move(value));
  }
  return texts;
}

// Caches the texts of blocks; each distinct block is formatted once. For one writer; the words must
// stay at their address during its life.
class OpInputTextCache {
 public:
  const OpInputTexts& of(const uint64_t* words, size_t count) {
    Place& known = by_place_[words];  // most blocks are shared by many rows
    if (known.texts == nullptr || known.count != count) known = {&of_words(words, count), count};
    return *known.texts;
  }

 private:
  struct Place {
    const OpInputTexts* texts = nullptr;
    size_t count = 0;
  };

  const OpInputTexts& of_words(const uint64_t* words, size_t count) {
    key_.assign(reinterpret_cast<const char*>(words), count * sizeof *words);
    const auto [at, fresh] = texts_.try_emplace(key_);
    if (fresh) at->second = op_input_texts(words, count);
    return at->second;
  }

  std::unordered_map<const uint64_t*, Place> by_place_;
  std::unordered_map<std::string, OpInputTexts> texts_;
  std::string key_;
};

FASTPROF_NAMESPACE_END
