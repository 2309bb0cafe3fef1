// SPDX-License-Identifier: Apache-2.0
// LibrarySearch: finds one of NVIDIA's libraries at run time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {

// Finds an exported function. Returns whether there is one.
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
  const char* variable;                        // in the environment: a path; empty: none is wanted
  std::vector<const char*> sonames;            // of what the process has loaded, and of the loader
  const std::vector<std::string>& candidates;  // paths, such as in NVIDIA's Python packages
  std::vector<const char*> below_toolkit;      // below CUDA_HOME and CUDA_PATH
  const char* name;                            // for messages
  const char* package;                         // what to install, for messages
};

// Loads a library, in this order: the file that the variable names; the one that the process has
// loaded already, since two copies would have two states; `candidates`; the toolkit; what the
// loader finds. It is never unloaded, and its symbols are nobody else's (RTLD_LOCAL). bind: stores
// the functions of a handle and returns the name of a required one that is missing, or an empty
// text. Returns false and the reason in `problem` if no library fits. Any thread.
bool load_library(const LibrarySearch& search, const std::function<std::string(void*)>& bind,
                  std::string& problem);

// Path of the file that a function is in; `otherwise` if the loader does not say.
std::string path_of_function(void* function, const std::string& otherwise);

}  // namespace cuda
FASTPROF_NAMESPACE_END
