// SPDX-License-Identifier: Apache-2.0
// step_sums(): what one rank did in each of its steps, in one pass over its events: unions of
// intervals of its computation, communication and copies, times by name, and marks of stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/column.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace rank_steps {

// Bits of an event's classes. An event has those that both its name and its category have.
enum EventClass : uint8_t {
  kComputation = 1,
  kCommunication = 2,
  kCopy = 4,
  kIssue = 8,  // its time is no computation, though computation may lie in it
  kLoader = 16,
  kBackward = 32,
  kOptimizer = 64,
  kBusy = 128  // counts in StepSums::busy if it is no communication
};

// Events of a rank, as borrowed columns.
struct Events {
  size_t size = 0;
  const int64_t* start_ns = nullptr;
  const int64_t* duration_ns = nullptr;
  const int32_t* name = nullptr;      // index into class_of_name
  const int32_t* category = nullptr;  // index into class_of_category
  size_t names = 0;
  const uint8_t* class_of_name = nullptr;
  size_t categories = 0;
  const uint8_t* class_of_category = nullptr;
};

// Steps [start_ns, end_ns), by start.
struct Steps {
  size_t size = 0;
  const int64_t* start_ns = nullptr;
  const int64_t* end_ns = nullptr;
};

// Columns by step, in ns. An event is of the last step that began before it. Sums wrap on overflow.
struct StepSums {
  Column<int64_t> computation, communication, copies;  // time in the step with any
  Column<int64_t> exposed_communication;               // without computation beside it
  Column<int64_t> exposed_copies;                      // with neither beside them
  Column<int64_t> loader_end, optimizer_end;           // latest of its events, INT64_MIN: none
  Column<int64_t> backward_start, optimizer_start;     // earliest, INT64_MAX: none
  Column<int64_t> busy;                                // by name: durations of what began in a step
};

// Throws ValueError for a name or category that is out of range. Any thread.
StepSums step_sums(const Events& events, const Steps& steps);

}  // namespace rank_steps
FASTPROF_NAMESPACE_END
