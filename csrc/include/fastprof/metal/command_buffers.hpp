// SPDX-License-Identifier: Apache-2.0
// CommandBuffers: profiles all command buffers that the process commits, PyTorch's among them.
//
//   std::string reason;
//   platform.observe_commits(std::make_shared<metal::CommandBuffers>(profiler), reason);
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/metal/platform.hpp"
#include "fastprof/metal/profiler.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

class CommandBuffers final : public CommitObserver {
 public:
  explicit CommandBuffers(std::shared_ptr<Profiler> profiler) : profiler_(std::move(profiler)) {}

  std::shared_ptr<void> committing(Stream& stream, const std::string& label) noexcept override {
    return profiler_->begin_command_buffer(stream, label);
  }
  void committed(const std::shared_ptr<void>& commit) noexcept override {
    profiler_->end_command_buffer(*static_cast<const Execution*>(commit.get()));
  }

 private:
  const std::shared_ptr<Profiler> profiler_;
};

}  // namespace metal
FASTPROF_NAMESPACE_END
