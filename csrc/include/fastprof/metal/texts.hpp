// SPDX-License-Identifier: Apache-2.0
// Texts of the Metal profiler: tensors, kernels, sizes and times as its lines, tables and signposts
// show them. The forms of tensors, kernels and sizes are those of PyTorch's MPSProfiler.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/device.hpp"
#include "fastprof/primitives/dtype.hpp"
#include "fastprof/primitives/span.hpp"
#include "fastprof/primitives/value.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// Name of PyTorch's ScalarType ("Float").
inline const char* scalar_type_name(DType dtype) noexcept {
  switch (dtype) {
    // clang-format off
    case DType::uint8: return "Byte";
    case DType::int8: return "Char";
    case DType::int16: return "Short";
    case DType::int32: return "Int";
    case DType::int64: return "Long";
    case DType::float16: return "Half";
    case DType::float32: return "Float";
    case DType::float64: return "Double";
    case DType::complex32: return "ComplexHalf";
    case DType::complex64: return "ComplexFloat";
    case DType::complex128: return "ComplexDouble";
    case DType::boolean: return "Bool";
    case DType::bfloat16: return "BFloat16";
    case DType::uint16: return "UInt16";
    case DType::uint32: return "UInt32";
    case DType::uint64: return "UInt64";
    default: return dtype_name(dtype);
      // clang-format on
  }
}

// printf for a double with some digits behind the point.
inline std::string fixed_text(double value, int digits) {
  char text[64];
  const int size = std::snprintf(text, sizeof text, "%.*f", digits, value);
  return size > 0 && static_cast<size_t>(size) < sizeof text ? std::string(text) : "huge";
}

// "17 bytes", "1.50 KB", "3.00 MB", "2.25 GB"; the unit changes above 1024 of the smaller one.
inline std::string size_text(uint64_t size_bytes) {
  constexpr uint64_t kilo = 1024, mega = kilo * kilo, giga = mega * kilo;
  const auto in = [size_bytes](uint64_t unit, const char* name) {
    return fixed_text(static_cast<double>(size_bytes) / static_cast<double>(unit), 2) + name;
  };
  if (size_bytes <= kilo) return std::to_string(size_bytes) + " bytes";
  if (size_bytes <= mega) return in(kilo, " KB");
  if (size_bytes <= giga) return in(mega, " MB");
  return in(giga, " GB");
}

// "[GPU=0.324 ms, KRNL=0.036 ms]" of what is above 0; empty if neither is. `second`: name of the
// other time, "KRNL" for scheduling and "CPU" for work that a CPU did.
inline std::string times_text(double gpu_ms, double other_ms, const char* second) {
  std::string text;
  if (gpu_ms > 0) text = "[GPU=" + fixed_text(gpu_ms, 3) + " ms";
  if (other_ms > 0)
    text +=
        (text.empty() ? "[" : ", ") + std::string(second) + "=" + fixed_text(other_ms, 3) + " ms";
  return text.empty() ? text : text + "]";
}

// "MPS" and the like: device types as PyTorch's DeviceTypeName() has them.
inline std::string device_text(DeviceType type) {
  std::string name = device_type_name(type);
  for (char& letter : name)
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  return name;
}

// "MPS:Float[2, 3]"; "MPS(buf#4):Float[2, 3]" with the number of its buffer, 0: without;
// "undefined" for a tensor of undefined type.
inline std::string tensor_text(const TensorDescription& tensor, uint64_t buffer_number) {
  if (tensor.dtype == DType::undefined) return "undefined";
  std::string text = device_text(tensor.device.type);
  if (buffer_number != 0) text += "(buf#" + std::to_string(buffer_number) + ")";
  text += ":" + std::string(scalar_type_name(tensor.dtype)) + "[";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  return text + "]";
}

// "MPS:0x10e4c0000": memory without a tensor.
inline std::string memory_text(const void* address, bool on_device) {
  char text[40];
  std::snprintf(text, sizeof text, "%s:0x%" PRIxPTR, on_device ? "MPS" : "CPU",
                reinterpret_cast<uintptr_t>(address));
  return text;
}

// Number of bytes of the elements of a tensor.
inline uint64_t size_bytes(const TensorDescription& tensor) noexcept {
  if (tensor.dtype == DType::undefined) return 0;
  uint64_t elements = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    elements *= tensor.shape[i] > 0 ? static_cast<uint64_t>(tensor.shape[i]) : 0;
  return elements * dtype_size_bytes(tensor.dtype);
}

// `text` in the middle of `width` bytes, an odd space after it.
inline std::string centred(std::string_view text, size_t width, char fill = ' ') {
  if (text.size() >= width) return std::string(text);
  const size_t before = (width - text.size()) / 2;
  return std::string(before, fill) + std::string(text) +
         std::string(width - text.size() - before, fill);
}

}  // namespace metal
FASTPROF_NAMESPACE_END
