// SPDX-License-Identifier: Apache-2.0
// Device plug-ins: loads their libraries, checks their tables, and registers the accepted ones.
#pragma once

#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/device_plugin.h"

FASTPROF_NAMESPACE_BEGIN
namespace plugins {

// A plug-in that has been accepted. Lives as long as the process.
struct LoadedPlugin {
  std::string name;
  std::string path;  // empty: registered by the program itself
  int32_t device_type = 0;
  bool has_stubs = false;
};

// Returns what is wrong with a plug-in's table; empty if it is valid. Any thread.
std::string fault_of(const fastprof_device_plugin* plugin);

// Loads the library at `path`, checks its plug-in and registers its backend. The library is never
// unloaded. Loading the same library again returns the same plug-in. Raises UnavailableError if it
// cannot be loaded or is not a device plug-in, ValueError if its table is invalid or its name is
// taken by another plug-in. Any thread.
const LoadedPlugin& load_plugin(const std::string& path);

// Registers a plug-in that the program itself provides and that lives as long as the process;
// raises the same errors as load_plugin(). Any thread.
const LoadedPlugin& add_plugin(const fastprof_device_plugin* plugin, const std::string& path = {});

// Makes the exclusive profiler's state PRIVATEUSE1 use the stubs of a plug-in. Raises
// UnavailableError if there is no plug-in with this name or it has no stubs. Any thread.
void select_stubs(const std::string& name);

}  // namespace plugins
FASTPROF_NAMESPACE_END
