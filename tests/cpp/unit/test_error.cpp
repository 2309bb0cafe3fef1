// SPDX-License-Identifier: Apache-2.0
// base/error.hpp: the hierarchy.
#include <stdexcept>
#include <type_traits>

#include "check.hpp"
#include "fastprof/base/error.hpp"

TEST(every_error_is_an_Error) {
  CHECK(std::is_base_of_v<std::runtime_error, fastprof::Error>);
  CHECK(std::is_base_of_v<fastprof::Error, fastprof::StateError>);
  CHECK(std::is_base_of_v<fastprof::Error, fastprof::ValueError>);
  CHECK(std::is_base_of_v<fastprof::Error, fastprof::UnavailableError>);
  CHECK(std::is_base_of_v<fastprof::Error, fastprof::IoError>);
  CHECK(std::is_base_of_v<fastprof::Error, fastprof::FormatError>);
}
