// SPDX-License-Identifier: Apache-2.0
// LibrarySearch: finds a library of a device's vendor at run time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {

// Sets *function to the address of an exported function; null if there is none. Returns whether
// there is one.
bool find_symbol(void* handle, const char* name, void** function);
template <class Function>
bool find_function(void* handle, const char* name, Function& function) {
  void* address = nullptr;
  const bool found = find_symbol(handle, name, &address);
  function = reinterpret_cast<Function>(address);
  return found;
}

// Where a library may lie, in the order in which load_library() looks.
struct LibrarySearch {
  const char* variable;              // environment variable with a path; empty value: disabled
  std::vector<const char*> sonames;  // looked for among loaded libraries, then by the loader
  const std::vector<std::string>& candidates;  // paths, such as in the vendor's Python packages
  std::vector<const char*> toolkit;            // environment variables with the toolkit's folder
  std::vector<const char*> below_toolkit;      // paths in that folder
  const char* name;                            // for messages
  const char* device;                          // whose work needs it, for messages: "CUDA"
  const char* install;                         // what to install, for messages
};

// Loads a library, in this order: the file that the variable names; the copy that the process has
// already loaded, because a second one would have a state of its own; `candidates`; the toolkit;
// what the loader finds. It is never unloaded, and its symbols are local (RTLD_LOCAL). bind: stores
// the functions of a handle; returns the name of a required function that is missing, or an empty
// text. Returns false and sets `problem` if no library fits. Any thread.
bool load_library(const LibrarySearch& search, const std::function<std::string(void*)>& bind,
                  std::string& problem);

// Returns the path of the file that contains a function; `otherwise` if the loader does not report
// it.
std::string path_of_function(void* function, const std::string& otherwise);

}  // namespace devices
FASTPROF_NAMESPACE_END
