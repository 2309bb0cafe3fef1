// SPDX-License-Identifier: Apache-2.0
// A folder for backing files that only this user can read.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/platform/files.hpp"

FASTPROF_NAMESPACE_BEGIN

// Makes a new folder of mode 0700, named `prefix` and six characters, and returns its path. It lies
// in a folder in memory if there is one (/dev/shm), else in $TMPDIR or /tmp. Throws IoError. The
// caller removes it.
inline std::string make_private_folder(const std::string& prefix = "fastprof-") {
  const char* given = std::getenv("TMPDIR");
  int error = ENOENT;
  for (const char* folder :
       {platform::folder_in_memory(), given != nullptr && *given != 0 ? given : "/tmp", "/tmp"}) {
    if (folder == nullptr) continue;
    std::string path = std::string(folder) + "/" + prefix + "XXXXXX";
    if (::mkdtemp(path.data()) != nullptr) return path;
    error = errno;
  }
  raise<IoError>(std::string("cannot make a private folder: ") + std::strerror(error) +
                 "; set TMPDIR to a folder that can be written");
}

FASTPROF_NAMESPACE_END
