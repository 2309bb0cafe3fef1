// SPDX-License-Identifier: Apache-2.0
// base/error.hpp: the hierarchy, and that raise keeps the type and the message.
#include <stdexcept>
#include <string>
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

TEST(raise_keeps_type_and_message) {
  CHECK_THROWS(fastprof::StateError, fastprof::raise<fastprof::StateError>("call start() first"));
  std::string message;
  try {
    fastprof::raise<fastprof::IoError>("disk is full: free some space");
  } catch (const fastprof::StateError&) {
    message = "wrong type";
  } catch (const fastprof::Error& error) {
    message = error.what();
  }
  CHECK_EQ(message, std::string("disk is full: free some space"));
}
