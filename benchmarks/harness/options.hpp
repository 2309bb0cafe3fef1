// SPDX-License-Identifier: Apache-2.0
// Command line options of the benchmarks of whole sessions: --rounds N --ranges N --folder FOLDER
// --json FILE.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace bench {

// Values of the command line options.
struct Options {
  int rounds = 11;
  size_t ranges = 0;          // recorded per round
  std::string folder = ".";   // for files that the benchmark writes
  std::FILE* json = nullptr;  // rows are appended; closed by the caller
};

// Parses the command line. ranges: default of --ranges. Unknown options are ignored.
inline Options parse_options(int argc, char** argv, size_t ranges) {
  Options options;
  options.ranges = ranges;
  for (int i = 1; i + 1 < argc; i += 2) {
    const char* const value = argv[i + 1];
    if (std::strcmp(argv[i], "--rounds") == 0) options.rounds = std::atoi(value);
    if (std::strcmp(argv[i], "--ranges") == 0)
      options.ranges = static_cast<size_t>(std::atoll(value));
    if (std::strcmp(argv[i], "--folder") == 0) options.folder = value;
    if (std::strcmp(argv[i], "--json") == 0) options.json = std::fopen(value, "a");
  }
  return options;
}

}  // namespace bench
