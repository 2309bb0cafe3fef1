// SPDX-License-Identifier: Apache-2.0
// Tables by torch release: values that hold for a range of releases.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "adapters/torch/layout/standard_library.hpp"
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

// A table row: `value` holds from `first` to `last` with one string ABI. Rows for libstdc++ are of
// Linux on x86-64 and aarch64; those for libc++'s alternate layout are of macOS on arm64.
template <class Value>
struct KnownReleases {
  Release first;
  Release last;
  StringAbi abi;
  Value value;
};

// Returns the string ABI of libtorch; empty on a platform that no row is for. cxx11_abi: which of
// libstdc++'s, as torch says; libc++ has one.
inline std::optional<StringAbi> string_abi_here(bool cxx11_abi) noexcept {
  if (StandardLibrary::kAbi != StringAbi::libstdcxx) return StandardLibrary::kAbi;
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && defined(__GLIBCXX__)
  return cxx11_abi ? StringAbi::libstdcxx : StringAbi::libstdcxx_older;
#else
  (void)cxx11_abi;
  return std::nullopt;
#endif
}

// Returns the value for a version; null if no row matches.
template <class Value, size_t rows>
const Value* find_release(const KnownReleases<Value> (&table)[rows], std::string_view version,
                          std::optional<StringAbi> abi) noexcept {
  const std::optional<Release> release = read_release(version);
  if (!release || !abi) return nullptr;
  for (const KnownReleases<Value>& row : table)
    if (row.abi == *abi && !(*release < row.first) && !(row.last < *release)) return &row.value;
  return nullptr;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
