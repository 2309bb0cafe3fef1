// SPDX-License-Identifier: Apache-2.0
// Converts a Column to a NumPy array.
#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/column.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Returns an array that takes ownership of the column, without a copy.
template <class T>
pybind11::array_t<T> array_of(Column<T> values) {
  auto owner = std::make_unique<Column<T>>(std::move(values));
  T* const data = owner->data();
  const auto size = static_cast<pybind11::ssize_t>(owner->size());
  const pybind11::capsule base(owner.get(),
                               [](void* held) { delete static_cast<Column<T>*>(held); });
  owner.release();
  return pybind11::array_t<T>(size, data, base);
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
