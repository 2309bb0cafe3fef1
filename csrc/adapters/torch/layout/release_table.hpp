// SPDX-License-Identifier: Apache-2.0
// Tables by torch release: values that hold for a range of releases.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The first two numbers of a version; all builds and patches of a release have the same layout.
struct Release {
  unsigned major;
  unsigned minor;
};
constexpr bool operator<(Release a, Release b) noexcept {
  return a.major != b.major ? a.major < b.major : a.minor < b.minor;
}

// Parses the release from "2.13.0+cpu"; empty if the text does not begin with a version.
std::optional<Release> read_release(std::string_view version) noexcept;

// The newest release in the tables.
inline constexpr Release kNewestRelease{2, 15};

// A table row: `value` holds from `first` to `last` with one of libstdc++'s string ABIs.
template <class Value>
struct KnownReleases {
  Release first;
  Release last;
  bool cxx11_abi;
  Value value;
};

// Returns the value for a version; null if no row matches or the platform is untested.
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
