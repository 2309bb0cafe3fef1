// SPDX-License-Identifier: Apache-2.0
// Tables of the Metal profiler's statistics, in the columns and widths of PyTorch's MPSProfiler.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/metal/options.hpp"
#include "fastprof/metal/statistics.hpp"
#include "fastprof/metal/texts.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {
namespace tables_detail {

struct Column {
  const char* title;
  size_t width;  // of the title; cells are one wider, for the separator
};

// The title in a ruled line, the columns' titles, a rule. `last`: title of the column without a
// width; empty: there is none.
template <size_t Count>
std::string head(const std::string& title, size_t width, const Column (&columns)[Count],
                 const char* last) {
  std::string text = "\n" + centred(" " + title + " ", width, '-') + "\n";
  for (size_t i = 0; i < Count; ++i)
    text += (i == 0 ? "" : "|") + centred(columns[i].title, columns[i].width);
  if (*last != 0) text += "| " + std::string(last);
  return text + "\n" + std::string(width, '-') + "\n";
}

template <size_t Count>
std::string row(const Column (&columns)[Count], const std::string (&cells)[Count],
                const std::string& last) {
  std::string text;
  for (size_t i = 0; i < Count; ++i) text += centred(cells[i], columns[i].width + 1);
  return text + (last.empty() ? "" : " " + last) + "\n";
}

// Pointers to the elements, largest key first; equal ones keep their order.
template <class Type, class Key>
std::vector<const Type*> sorted(const std::vector<Type>& all, Key key) {
  std::vector<const Type*> order;
  for (const Type& each : all) order.push_back(&each);
  std::stable_sort(order.begin(), order.end(),
                   [key](const Type* a, const Type* b) { return key(*a) > key(*b); });
  return order;
}

}  // namespace tables_detail

// Operations by mean GPU time, largest first.
inline std::string operations_table(const Statistics& statistics) {
  using namespace tables_detail;
  if (statistics.operations.empty()) return "There are no MPS operations logged for profiling\n";
  constexpr Column columns[] = {
      {"ID", 6}, {"#Runs", 7}, {"Mean KRNL(ms)", 15}, {"Mean GPU(ms)", 14}, {"Total GPU(ms)", 15}};
  std::string text = head("MPS Operations Profiling: " + std::to_string(statistics.graph_count) +
                              " graphs, " + std::to_string(statistics.kernel_count) + " kernels",
                          200, columns, "Operation Name");
  for (const OperationStatistics* each :
       sorted(statistics.operations, [](const auto& one) { return one.mean_gpu_ms(); })) {
    const std::string cells[] = {(each->is_graph ? "G" : "K") + std::to_string(each->profile_id),
                                 std::to_string(each->run_count),
                                 fixed_text(each->mean_scheduling_ms(), 3),
                                 fixed_text(each->mean_gpu_ms(), 3), fixed_text(each->gpu_ms, 3)};
    text += row(columns, cells, each->name);
  }
  return text;
}

// Ops that fell back to the CPU by mean CPU time, largest first.
inline std::string fallbacks_table(const Statistics& statistics) {
  using namespace tables_detail;
  if (statistics.fallbacks.empty()) return "There are no CPU Fallbacks logged for profiling\n";
  constexpr Column columns[] = {
      {"ID", 5}, {"#Runs", 7}, {"Mean CPU(ms)", 14}, {"Total CPU(ms)", 15}, {"Copy Overhead", 15}};
  uint64_t runs = 0, bytes = 0;
  double cpu_ms = 0;
  for (const FallbackStatistics& each : statistics.fallbacks) {
    runs += each.run_count;
    bytes += each.copy_overhead_bytes;
    cpu_ms += each.cpu_ms;
  }
  std::string text = head("CPU Fallback Profiling: Total " + std::to_string(runs) + " Runs, " +
                              fixed_text(cpu_ms, 2) + " ms, " + size_text(bytes) + " Copies",
                          150, columns, "Operation Name");
  for (const FallbackStatistics* each :
       sorted(statistics.fallbacks, [](const auto& one) { return one.mean_cpu_ms(); })) {
    const std::string cells[] = {std::to_string(each->profile_id), std::to_string(each->run_count),
                                 fixed_text(each->mean_cpu_ms(), 3), fixed_text(each->cpu_ms, 3),
                                 size_text(each->copy_overhead_bytes)};
    text += row(columns, cells, each->op_name);
  }
  return text;
}

// Copies by kind; kinds without a copy are left out.
inline std::string copies_table(const Statistics& statistics) {
  using namespace tables_detail;
  uint64_t count = 0, bytes = 0, scalars = 0;
  for (const CopyStatistics& each : statistics.copies) {
    count += each.count;
    bytes += each.bytes;
    scalars += each.scalar_count;
  }
  if (count == 0) return "There are no copies logged for profiling\n";
  constexpr Column columns[] = {{"Kind", 12},           {"Total#", 10},        {"Total Size", 17},
                                {"Total KRNL(ms)", 16}, {"Total GPU(ms)", 15}, {"Scalars", 9},
                                {"Scalars GPU", 13},    {"Blocking", 10},      {"memcpy", 8}};
  std::string text = head("MPS Copy Profiling: " + std::to_string(count) + " total copies (" +
                              size_text(bytes) + "), " + std::to_string(scalars) + " scalar copies",
                          160, columns, "");
  for (const CopyStatistics& each : statistics.copies) {
    if (each.count == 0) continue;
    const std::string cells[] = {copy_kind_name(each.kind),
                                 std::to_string(each.count),
                                 size_text(each.bytes),
                                 fixed_text(each.scheduling_ms, 3),
                                 fixed_text(each.gpu_ms, 3),
                                 std::to_string(each.scalar_count),
                                 fixed_text(each.scalar_gpu_percent(), 2) + " %",
                                 std::to_string(each.blocking_count),
                                 std::to_string(each.memcpy_count)};
    text += row(columns, cells, "");
  }
  return text;
}

// The tables that log options name, OPERATION_STATS, CPU_FALLBACK_STATS, COPY_STATS, in that order.
inline std::string tables_text(const Statistics& statistics, uint32_t log) {
  std::string text;
  if ((log & OPERATION_STATS) != 0) text += operations_table(statistics);
  if ((log & CPU_FALLBACK_STATS) != 0) text += fallbacks_table(statistics);
  if ((log & COPY_STATS) != 0) text += copies_table(statistics);
  return text;
}

}  // namespace metal
FASTPROF_NAMESPACE_END
