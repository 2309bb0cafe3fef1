// SPDX-License-Identifier: Apache-2.0
// Value: construction, sharing, comparison, text and JSON.
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"
#include "fastprof/primitives/value_text.hpp"

namespace user {
struct Matrix {
  int64_t rows, columns;
};
inline fastprof::Value to_value(const Matrix& matrix) {
  const int64_t shape[] = {matrix.rows, matrix.columns};
  return fastprof::TensorDescription{shape, {}, fastprof::DType::float32, {}, nullptr};
}
}  // namespace user

using namespace fastprof;

TEST(scalars_keep_type_and_value) {
  CHECK(Value().is_none());
  CHECK(Value(nullptr).is_none());
  CHECK_EQ(Value(7).as_int64(), 7);
  CHECK_EQ(Value(int8_t{-3}).as_int64(), -3);
  CHECK_EQ(Value(INT64_MIN).as_int64(), INT64_MIN);
  CHECK_EQ(Value(uint64_t{5}).type(), ValueType::int64);
  CHECK_EQ(Value(UINT64_MAX).type(), ValueType::float64);
  CHECK_EQ(Value(UINT64_MAX).as_float64(), 18446744073709551616.0);
  CHECK_EQ(Value(true).type(), ValueType::boolean);
  CHECK_EQ(Value(0.5f).as_float64(), 0.5);
  CHECK_EQ(Value("text").as_string(), "text");
  CHECK_EQ(Value(std::string("a\0b", 3)).as_string().size(), 3u);
  CHECK(Value(static_cast<const char*>(nullptr)).is_none());
}

TEST(wrong_type_is_an_error) {
  CHECK_THROWS(ValueError, Value(1).as_float64());
  CHECK_THROWS(ValueError, Value("x").as_list());
  CHECK_THROWS(ValueError, Value().as_tensor());
}

TEST(tensors_keep_every_field) {
  const std::vector<int64_t> shape{2, 3, 4}, strides{12, 4, 1};
  const int target = 0;
  const Value value =
      TensorDescription{shape, strides, DType::bfloat16, Device{DeviceType::CUDA, 1}, &target};
  const TensorDescription read = value.as_tensor();
  CHECK_EQ(read.shape.size(), 3u);
  CHECK_EQ(read.shape[2], 4);
  CHECK_EQ(read.strides[0], 12);
  CHECK_EQ(read.dtype, DType::bfloat16);
  CHECK(read.device == (Device{DeviceType::CUDA, 1}));
  CHECK(read.pointer == &target);
  const Value scalar = TensorDescription{};
  CHECK_EQ(scalar.as_tensor().shape.size(), 0u);
}

TEST(lists_nest_and_share) {
  const Value inner = std::vector<int>{1, 2};
  const Value outer = Value::list({inner, "x", Value()});
  const Value copy = outer;
  CHECK_EQ(copy.as_list().size(), 3u);
  CHECK(copy.as_list().data() == outer.as_list().data());
  CHECK_EQ(copy.as_list()[0].as_list()[1].as_int64(), 2);
  CHECK(Value(std::vector<bool>{true, false}).as_list()[0].as_bool());
  CHECK_EQ(Value::list({}).as_list().size(), 0u);
}

TEST(equality_is_by_type_and_content) {
  CHECK(Value(1) == Value(1));
  CHECK(Value(1) != Value(1.0));
  CHECK(Value("a") == Value(std::string("a")));
  CHECK(Value::list({1, "a"}) == Value::list({1, "a"}));
  CHECK(Value::list({1}) != Value::list({1, 2}));
  CHECK(Value(std::nan("")) != Value(std::nan("")));
  CHECK((to_value(user::Matrix{2, 3}) == to_value(user::Matrix{2, 3})));
  CHECK((to_value(user::Matrix{2, 3}) != to_value(user::Matrix{3, 2})));
}

TEST(user_types_convert_by_to_value_also_inside_vectors) {
  const Value list = std::vector<user::Matrix>{{2, 3}, {4, 5}};
  CHECK_EQ(list.as_list()[1].as_tensor().shape[0], 4);
}

TEST(shared_content_may_be_dropped_by_other_threads) {
  const Value value = Value::list({"shared", 1});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([value] {
      for (int k = 0; k < 1000; ++k) {
        const Value copy = value;
        CHECK_EQ(copy.as_list()[0].as_string(), "shared");
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(value.as_list().size(), 2u);
}

TEST(json_is_strict) {
  CHECK_EQ(to_json(Value()), "null");
  CHECK_EQ(to_json(Value(true)), "true");
  CHECK_EQ(to_json(Value(-5)), "-5");
  CHECK_EQ(to_json(Value(0.1)), "0.1");
  CHECK_EQ(to_json(Value(std::numeric_limits<double>::infinity())), "\"Infinity\"");
  CHECK_EQ(to_json(Value(-std::numeric_limits<double>::infinity())), "\"-Infinity\"");
  CHECK_EQ(to_json(Value(std::nan(""))), "\"NaN\"");
  CHECK_EQ(to_json(Value("a\"b\\\n\x01")), "\"a\\\"b\\\\\\n\\u0001\"");
  CHECK_EQ(to_json(Value("\xED\xA0\x80")), "\"\xEF\xBF\xBD\"");
  CHECK_EQ(to_json(Value("\xF0\x9F\x98\x80")), "\"\xF0\x9F\x98\x80\"");
  CHECK_EQ(to_json(Value::list({1, Value::list({}), "x"})), "[1,[],\"x\"]");
  const std::vector<int64_t> shape{2, 3}, strides{3, 1};
  const Value tensor =
      TensorDescription{shape, strides, DType::float32, Device{DeviceType::CUDA, 0},
                        reinterpret_cast<const void*>(uintptr_t{0xABC})};
  CHECK_EQ(to_json(tensor),
           "{\"shape\":[2,3],\"strides\":[3,1],\"dtype\":\"float32\",\"device\":\"cuda:0\","
           "\"data_ptr\":\"0xabc\"}");
}

TEST(text_is_for_people) {
  CHECK_EQ(to_string(Value()), "None");
  CHECK_EQ(to_string(Value::list({1, "a"})), "[1, \"a\"]");
  CHECK_EQ(to_string(to_value(user::Matrix{2, 3})), "float32[2, 3] cpu");
}

TEST(element_types_keep_pytorchs_numbers_and_have_names_and_sizes) {
  std::string found;
  for (const auto& [first, last] : {std::pair(-1, 15), std::pair(23, 29), std::pair(99, 99)})
    for (int number = first; number <= last; ++number) {
      const auto dtype = static_cast<DType>(number);
      found += dtype_name(dtype) + (" " + std::to_string(dtype_size_bytes(dtype))) + ", ";
    }
  CHECK_EQ(
      found,
      "undefined 0, uint8 1, int8 1, int16 2, int32 4, int64 8, float16 2, float32 4, float64 8, "
      "complex32 4, complex64 8, complex128 16, bool 1, qint8 1, quint8 1, qint32 4, bfloat16 2, "
      "float8_e5m2 1, float8_e4m3fn 1, float8_e5m2fnuz 1, float8_e4m3fnuz 1, uint16 2, uint32 4, "
      "uint64 8, unknown 0, ");
}

TEST(types_of_devices_keep_pytorchs_numbers_and_have_names) {
  std::string names;
  for (int number = -2; number <= 21; ++number)
    names += device_type_name(static_cast<DeviceType>(number)) + std::string(" ");
  CHECK_EQ(
      names,
      "unknown none cpu cuda mkldnn opengl opencl ideep hip fpga maia xla vulkan metal xpu mps "
      "meta hpu ve lazy ipu mtia privateuseone unknown ");
}
