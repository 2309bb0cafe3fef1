// SPDX-License-Identifier: Apache-2.0
// NativeSamples: the stacks that a NativeSampler has found.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/payload/native_stack/function_name.hpp"
#include "fastprof/payload/native_stack/symbolize.hpp"

FASTPROF_NAMESPACE_BEGIN

// Consecutive samples of a thread with the same stack and state.
struct NativeSample {
  int64_t first_ns;  // monotonic clock
  int64_t last_ns;
  uint32_t thread;  // index in threads
  int32_t node;     // index in nodes, innermost frame; -1: the stack could not be read
  uint32_t count;
  bool on_cpu;  // the thread used its CPU's time since the last tick
};

// A frame below another one: a path to the outermost frame is a stack.
struct NativeNode {
  int32_t parent;    // -1: outermost
  uint64_t address;  // a return address; of an innermost frame, its instruction plus 1
};

struct NativeThread {
  uint32_t tid;
  std::string name;
};

struct NativeCounts {
  uint64_t ticks = 0;
  uint64_t missed_ticks = 0;  // the sampling thread had no CPU, or a tick took too long
  uint64_t stacks = 0;        // that were read
  uint64_t missed = 0;        // samples of threads that block the signal, or did not run in time
  uint64_t truncated = 0;     // stacks without their outermost frames
  uint64_t no_room = 0;       // samples that are not kept, because of the limits of the options
  int64_t cpu_ns = 0;         // of the sampling thread
};

// Use from one thread at a time.
struct NativeSamples {
  double hz = 0;
  std::vector<NativeSample> samples;
  std::vector<NativeNode> nodes;
  std::vector<NativeThread> threads;
  NativeCounts counts;

  // Returns the samples in the collapsed form of flame graphs, a line for each stack:
  // "thread;outermost;...;innermost ns", functions as "name (library)". The time is the number of
  // samples by the period. Reads symbol tables: up to a second for a large library. `only_on_cpu`:
  // leaves out samples of threads that waited.
  std::string collapsed(bool only_on_cpu = false) const {
    std::map<std::pair<uint32_t, int32_t>, uint64_t> sums;
    for (const NativeSample& sample : samples)
      if (sample.on_cpu || !only_on_cpu) sums[{sample.thread, sample.node}] += sample.count;
    Symbolizer symbols;
    std::unordered_map<uint64_t, std::string> names;
    std::map<std::string, uint64_t> lines;
    for (const auto& [key, count] : sums) {
      std::vector<int32_t> path;
      for (int32_t at = key.second; at >= 0; at = nodes[static_cast<size_t>(at)].parent)
        path.push_back(at);
      std::string line = plain(threads[key.first].name);
      for (size_t i = path.size(); i-- != 0;) {
        const uint64_t address = nodes[static_cast<size_t>(path[i])].address;
        std::string& name = names[address];
        if (name.empty()) name = function_text(symbols.return_address(address));
        line += ";" + name;
      }
      lines[line] += count;
    }
    const auto period_ns = static_cast<uint64_t>(hz > 0 ? 1e9 / hz : 0);
    std::string text;
    for (const auto& [line, count] : lines)
      text += line + " " + std::to_string(count * period_ns) + "\n";
    return text;
  }

  // Writes collapsed() into a file, by convention a ".folded", which `fastprof report` and other
  // tools for flame graphs read. Throws IoError if the file cannot be written.
  void write_collapsed(const std::string& path, bool only_on_cpu = false) const {
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    bool written = file != nullptr;
    if (written) {
      const std::string text = collapsed(only_on_cpu);
      written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
      if (std::fclose(file) != 0) written = false;
    }
    if (!written)
      raise<IoError>("cannot write " + path + ": " + std::strerror(errno) +
                     "; choose another path, or make room");
  }

 private:
  // The separators of the form are replaced.
  static std::string plain(std::string text) {
    for (char& c : text)
      if (c == ';' || c == '\n') c = ':';
    return text;
  }
  static std::string function_text(const Symbol& symbol) {
    if (symbol.module.empty()) return "[unknown]";
    const std::string name =
        symbol.function.empty() ? "[unknown]" : short_function_name(symbol.function);
    return plain(name + " (" + symbol.file() + ")");
  }
};

FASTPROF_NAMESPACE_END
