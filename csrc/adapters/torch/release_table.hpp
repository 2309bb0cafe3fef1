// SPDX-License-Identifier: Apache-2.0
// Tables by release of torch: what a layout is, and between which releases it holds.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The first two numbers of a version; builds and patches of a release have one layout.
struct Release {
  unsigned major;
  unsigned minor;
};
constexpr bool operator<(Release a, Release b) noexcept {
  return a.major != b.major ? a.major < b.major : a.minor < b.minor;
}

// The release of "2.13.0+cpu"; nothing when the text does not begin with a version.
std::optional<Release> read_release(std::string_view version) noexcept;

// The newest release that the tables list.
inline constexpr Release kNewestRelease{2, 15};

// A row of a table: what holds from `first` to `last`, with one of libstdc++'s string ABIs.
template <class Value>
struct KnownReleases {
  Release first;
  Release last;
  bool cxx11_abi;
  Value value;
};

// The value of a version's row; null when no row has it, or on a system that was not tried.
template <class Value, size_t rows>
const Value* find_release(const KnownReleases<Value> (&table)[rows], std::string_view version,
                          bool cxx11_abi) noexcept {
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && defined(__GLIBCXX__)
  const std::optional<Release> release = read_release(version);
  if (!release) return nullptr;
  for (const KnownReleases<Value>& row : table)
    if (row.cxx11_abi == cxx11_abi && !(*release < row.first) && !(row.last < *release))
      return &row.value;
#else
  (void)table;
  (void)version;
  (void)cxx11_abi;
#endif
  return nullptr;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
