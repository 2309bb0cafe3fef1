// SPDX-License-Identifier: Apache-2.0
// Device plug-ins: loading their libraries, checking what they offer, and the list of those
// accepted.
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

// Returns what is wrong with a plug-in's table; empty if nothing is.
std::string fault_of(const fastprof_device_plugin* plugin);

// Loads the library at `path`, checks its plug-in and registers its backend. The library is never
// unloaded. Loading the same one again returns the same plug-in. Raises UnavailableError if it
// cannot be loaded or is no plug-in for this host, ValueError if its table is invalid or its name
// belongs to another plug-in. Any thread.
const LoadedPlugin& load_plugin(const std::string& path);

// Registers a plug-in of the program itself; errors as of load_plugin(). It must live as long as
// the process.
const LoadedPlugin& add_plugin(const fastprof_device_plugin* plugin, const std::string& path = {});

// Makes the stubs of a plug-in those of the exclusive profiler's state PRIVATEUSE1. Raises
// UnavailableError if there is no plug-in with this name or it has none. Any thread.
void select_stubs(const std::string& name);

}  // namespace plugins
FASTPROF_NAMESPACE_END
