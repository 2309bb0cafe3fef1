// SPDX-License-Identifier: Apache-2.0
// LibrarySearch: finds a library of a device's vendor at run time.
#pragma once

#include <functional>
#include <mutex>
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

// A library that is loaded at most once, and never unloaded. Allocate it and leave it allocated:
// callbacks may come while the process exits. Library has a member `path`, which is empty until it
// is usable.
template <class Library>
class LoadedOnce {
 public:
  // search: returns the LibrarySearch. bind: as for load_library(), with the Library. finish: sets
  // `path`; returns why the library cannot be used, or an empty text. Returns null and sets
  // `problem` if there is no usable library. Any thread.
  template <class Search, class Bind, class Finish>
  Library* get(const Search& search, const Bind& bind, const Finish& finish, std::string& problem) {
    const std::lock_guard<std::mutex> hold(lock_);
    if (!tried_) {
      Library library;
      const auto bind_all = [&](void* handle) { return bind(handle, library); };
      if (load_library(search(), bind_all, problem_)) {
        problem_ = finish(library);
        if (problem_.empty()) library_ = library;
      }
      tried_ = true;
    }
    if (!library_.path.empty()) return &library_;
    problem = problem_;
    return nullptr;
  }

 private:
  std::mutex lock_;
  bool tried_ = false;
  std::string problem_;
  Library library_;
};

}  // namespace devices
FASTPROF_NAMESPACE_END
