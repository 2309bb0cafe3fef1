// SPDX-License-Identifier: Apache-2.0
// What tests of the Metal profiler share: a profiler on a fake platform, descriptions of tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../doubles/metal/fake_platform.hpp"
#include "check.hpp"
#include "fastprof/metal/profiler.hpp"

namespace metal_checks {

namespace metal = fastprof::metal;
using fastprof::Device;
using fastprof::DeviceType;
using fastprof::DType;
using fastprof::TensorDescription;
using Texts = std::vector<std::string>;

inline constexpr int64_t kShape[] = {2, 3};

inline TensorDescription tensor(DeviceType device, DType dtype = DType::float32,
                                const void* pointer = nullptr) {
  TensorDescription made;
  made.shape = fastprof::Span<const int64_t>(kShape);
  made.dtype = dtype;
  made.device = Device{device, 0};
  made.pointer = pointer;
  return made;
}

// A profiler on a fake, and what it printed.
struct Setup {
  explicit Setup(uint32_t profile, uint32_t signposts = 0, uint32_t log = 0)
      : profiler(metal::Profiler::make(platform, {profile, signposts, log},
                                       [this](const std::string& text) { printed += text; })) {
    platform.log.clear();
  }
  Texts take() { return std::exchange(platform.log, {}); }

  fakes::FakePlatform platform;
  std::string printed;
  std::shared_ptr<metal::Profiler> profiler;
};

inline void check_texts(const Texts& got, const Texts& wanted, const char* file, int line) {
  std::string a, b;
  for (const std::string& each : got) a += each + "\n";
  for (const std::string& each : wanted) b += each + "\n";
  if (a != b) check::fail(file, line, "got\n" + a + "instead of\n" + b);
}

}  // namespace metal_checks

#define CHECK_TEXTS(got, ...) metal_checks::check_texts(got, __VA_ARGS__, __FILE__, __LINE__)
