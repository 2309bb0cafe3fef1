// SPDX-License-Identifier: Apache-2.0
// SparseColumn: a table column that takes no memory until a row has a value.
#pragma once

#include <cstddef>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/column.hpp"

FASTPROF_NAMESPACE_BEGIN

// Allocated when the first value is set; rows without a value get `absent`. If values are set in
// row order, memory is written once, sequentially.
template <class Type>
class SparseColumn {
 public:
  SparseColumn(size_t rows, Type absent) : rows_(rows), absent_(absent) {}

  bool exists() const noexcept { return exists_; }
  void make() {
    if (exists_) return;
    values_.resize(rows_);
    exists_ = true;
  }
  void set(size_t row, Type value) {
    make();
    fill_to(row + 1);
    values_[row] = value;
  }
  // Returns the column; empty if no row has a value.
  Column<Type> take() {
    if (exists_) fill_to(rows_);
    return std::move(values_);
  }

 private:
  void fill_to(size_t end) {
    for (; filled_ < end; ++filled_) values_[filled_] = absent_;
  }

  Column<Type> values_;
  size_t rows_;
  size_t filled_ = 0;
  Type absent_;
  bool exists_ = false;
};

FASTPROF_NAMESPACE_END
