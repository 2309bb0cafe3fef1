// SPDX-License-Identifier: Apache-2.0
// DType: element type of a tensor, with PyTorch's numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Element type. The numbers are those of PyTorch's ScalarType and are API; others are passed
// through unchanged.
enum class DType : int8_t {
  undefined = -1,
  uint8 = 0,
  int8 = 1,
  int16 = 2,
  int32 = 3,
  int64 = 4,
  float16 = 5,
  float32 = 6,
  float64 = 7,
  complex32 = 8,
  complex64 = 9,
  complex128 = 10,
  boolean = 11,
  qint8 = 12,
  quint8 = 13,
  qint32 = 14,
  bfloat16 = 15,
  float8_e5m2 = 23,
  float8_e4m3fn = 24,
  float8_e5m2fnuz = 25,
  float8_e4m3fnuz = 26,
  uint16 = 27,
  uint32 = 28,
  uint64 = 29,
};

// Returns the name used by NumPy and PyTorch's Python API ("float32", "bool"). Static text.
constexpr const char* dtype_name(DType dtype) noexcept {
  switch (dtype) {
    case DType::undefined:
      return "undefined";
    case DType::uint8:
      return "uint8";
    case DType::int8:
      return "int8";
    case DType::int16:
      return "int16";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::float16:
      return "float16";
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::complex32:
      return "complex32";
    case DType::complex64:
      return "complex64";
    case DType::complex128:
      return "complex128";
    case DType::boolean:
      return "bool";
    case DType::qint8:
      return "qint8";
    case DType::quint8:
      return "quint8";
    case DType::qint32:
      return "qint32";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float8_e5m2:
      return "float8_e5m2";
    case DType::float8_e4m3fn:
      return "float8_e4m3fn";
    case DType::float8_e5m2fnuz:
      return "float8_e5m2fnuz";
    case DType::float8_e4m3fnuz:
      return "float8_e4m3fnuz";
    case DType::uint16:
      return "uint16";
    case DType::uint32:
      return "uint32";
    case DType::uint64:
      return "uint64";
  }
  return "unknown";
}

// Returns the bytes per element; 0 if the type is undefined or unknown.
constexpr size_t dtype_size_bytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::uint8:
    case DType::int8:
    case DType::boolean:
    case DType::qint8:
    case DType::quint8:
    case DType::float8_e5m2:
    case DType::float8_e4m3fn:
    case DType::float8_e5m2fnuz:
    case DType::float8_e4m3fnuz:
      return 1;
    case DType::int16:
    case DType::float16:
    case DType::bfloat16:
    case DType::uint16:
      return 2;
    case DType::int32:
    case DType::float32:
    case DType::complex32:
    case DType::qint32:
    case DType::uint32:
      return 4;
    case DType::int64:
    case DType::float64:
    case DType::complex64:
    case DType::uint64:
      return 8;
    case DType::complex128:
      return 16;
    case DType::undefined:
      return 0;
  }
  return 0;
}

FASTPROF_NAMESPACE_END
