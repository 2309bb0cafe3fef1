// SPDX-License-Identifier: Apache-2.0
// A folder that is gone, with the files in it, when its object is.
#pragma once

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace fastprof_test {
namespace {

struct TemporaryFolder {
  std::string path;
  TemporaryFolder() {
    char name[] = "/tmp/fastprof-test-XXXXXX";
    path = mkdtemp(name);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    for (const std::string& name : names()) unlink((path + "/" + name).c_str());
    rmdir(path.c_str());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    DIR* folder = opendir(path.c_str());
    while (const dirent* entry = readdir(folder))
      if (entry->d_name[0] != '.') list.push_back(entry->d_name);
    closedir(folder);
    return list;
  }
};

}  // namespace
}  // namespace fastprof_test
