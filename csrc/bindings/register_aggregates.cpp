// SPDX-License-Identifier: Apache-2.0
// _core.Aggregator: statistics of all ranges per name, in bounded memory.
#include <pybind11/numpy.h>
#include <pybind11/typing.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "adapters/python/gil.hpp"
#include "bindings/column_array.hpp"
#include "bindings/register.hpp"
#include "fastprof/fastprof.hpp"
#include "fastprof/session/aggregation_thread.hpp"
#include "fastprof/session/aggregator.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

using Columns = py::typing::Dict<py::str, py::object>;

class AggregatorObject {
  template <class Get>
  auto locked(Get get) {
    const WithoutGil release;
    const std::lock_guard<std::mutex> hold(lock_);
    return get(*aggregator_);
  }

 public:
  explicit AggregatorObject(uint64_t max_bytes)
      : aggregator_(std::make_unique<Aggregator>(category::all, max_bytes)) {}
  ~AggregatorObject() {
    const WithoutGil release;
    if (pid_ != ::getpid()) {  // a forked child has no such thread
      static_cast<void>(thread_.release());
      static_cast<void>(aggregator_.release());
      return;
    }
    thread_.reset();
    aggregator_.reset();
  }
  AggregatorObject(const AggregatorObject&) = delete;
  AggregatorObject& operator=(const AggregatorObject&) = delete;

  void begin() {
    const WithoutGil release;
    if (thread_ == nullptr) thread_ = std::make_unique<AggregationThread>(*aggregator_, lock_);
  }

  void pause() {
    const WithoutGil release;
    thread_.reset();
  }

  void read() {
    locked([](Aggregator& from) { from.read(); });
  }

  bool is_over(TotalsWindow window) const { return aggregator_->is_over(window); }

  void begin_minute() {
    locked([](Aggregator& from) { from.begin_minute(); });
  }

  Columns columns(TotalsWindow window) {
    TotalsColumns found = locked([window](const Aggregator& from) { return from.columns(window); });
    Columns made;
    made["names"] = py::bytes(found.names);
    made["name_ends"] = array_of(std::move(found.name_ends));
    made["categories"] = py::bytes(found.categories);
    made["category_ends"] = array_of(std::move(found.category_ends));
    made["count"] = array_of(std::move(found.count));
    made["zeros"] = array_of(std::move(found.zeros));
    made["collapsed"] = array_of(std::move(found.collapsed));
    made["total_ns"] = array_of(std::move(found.total_ns));
    made["self_ns"] = array_of(std::move(found.self_ns));
    made["min_ns"] = array_of(std::move(found.min_ns));
    made["max_ns"] = array_of(std::move(found.max_ns));
    made["bin_ends"] = array_of(std::move(found.bin_ends));
    made["bins"] = array_of(std::move(found.bins));
    made["bin_counts"] = array_of(std::move(found.bin_counts));
    return made;
  }

  int64_t began_ns(TotalsWindow window) const { return aggregator_->began_ns(window); }
  int64_t read_until_ns() {
    return locked([](const Aggregator& from) { return from.read_until_ns(); });
  }
  uint64_t ranges() {
    return locked([](const Aggregator& from) { return from.ranges(); });
  }
  uint64_t open() {
    return locked([](const Aggregator& from) { return from.open(); });
  }
  uint64_t dropped() {
    return locked([](const Aggregator& from) { return from.dropped(); });
  }

 private:
  const pid_t pid_ = ::getpid();
  std::mutex lock_;  // held by what uses the aggregator, with or without the GIL
  std::unique_ptr<Aggregator> aggregator_;
  std::unique_ptr<AggregationThread> thread_;
};

}  // namespace

void register_aggregates(py::module_& module) {
  py::enum_<TotalsWindow>(module, "TotalsWindow", "A window of an Aggregator.")
      .value("MINUTE", TotalsWindow::minute)
      .value("HOUR", TotalsWindow::hour)
      .value("ALL", TotalsWindow::all);
  py::class_<AggregatorObject>(
      module, "Aggregator",
      "Reads every range that this process records, once, into statistics per name. Any thread. In "
      "a forked child it does nothing.")
      .def(py::init<uint64_t>(), py::arg("max_bytes"),
           "max_bytes: of records between two calls of read(); more are counted in dropped(). "
           "errors.StateError, errors.ValueError as of Session.start().")
      .def("begin", &AggregatorObject::begin,
           "Read on a thread of its own from now on, the more often the faster ranges come. "
           "errors.UnavailableError if no thread can be started.")
      .def("pause", &AggregatorObject::pause, "End the thread, and wait for it.")
      .def("read", &AggregatorObject::read, "Read what was recorded since the last call.")
      .def("is_over", &AggregatorObject::is_over, py::arg("window"),
           "Return whether the running minute or hour has ended.")
      .def("begin_minute", &AggregatorObject::begin_minute,
           "Begin a new minute, and a new hour if that is over.")
      .def("columns", &AggregatorObject::columns, py::arg("window"),
           "Return the statistics of a window: a row per name, bins and texts concatenated.")
      .def("began_ns", &AggregatorObject::began_ns, py::arg("window"),
           "Return when the window began, Unix ns.")
      .def("read_until_ns", &AggregatorObject::read_until_ns,
           "Return until when records have been read, Unix ns.")
      .def("ranges", &AggregatorObject::ranges, "Return the number of ranges that were counted.")
      .def("open", &AggregatorObject::open, "Return the number of ranges that have not ended.")
      .def("dropped", &AggregatorObject::dropped, "Return the number of ranges that were missed.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
