// SPDX-License-Identifier: Apache-2.0
// Parses versions: see release_table.hpp.
#include "adapters/torch/layout/release_table.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

bool read_number(std::string_view& text, unsigned& value) noexcept {
  size_t digits = 0;
  value = 0;
  while (digits < text.size() && digits < 4 && text[digits] >= '0' && text[digits] <= '9')
    value = value * 10 + static_cast<unsigned>(text[digits++] - '0');
  text.remove_prefix(digits);
  return digits != 0;
}

}  // namespace

std::optional<Release> read_release(std::string_view version) noexcept {
  Release release{};
  if (!read_number(version, release.major) || version.empty() || version[0] != '.')
    return std::nullopt;
  version.remove_prefix(1);
  if (!read_number(version, release.minor) || version.empty() || version[0] != '.')
    return std::nullopt;
  return release;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
