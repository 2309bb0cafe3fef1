// SPDX-License-Identifier: Apache-2.0
// An annotated library as somebody else writes it, everything default-visible: inline functions,
// templates, class members, lambdas. test_symbols.py looks at what it exports.
#include <fastprof/fastprof.hpp>
#include <string>

inline int inline_function(int x) {
  FASTPROF_RANGE("inline");
  return x + 1;
}

template <class T>
T template_function(T x) {
  FASTPROF_FUNCTION();
  FASTPROF_MARK("template");
  return x + x;
}

struct Worker {
  int value = 0;
  int work(int x) {
    FASTPROF_RANGE_ARGS("work", "x", x, "value", value);
    FASTPROF_COUNTER("value", value);
    return value += x;
  }
};

int library_entry(int x) {
  FASTPROF_FUNCTION();
  FASTPROF_RANGE_DYNAMIC("entry " + std::to_string(x));
  FASTPROF_FLOW_BEGIN(7);
  Worker worker;
  const auto lambda = [&worker](int y) {
    FASTPROF_RANGE("lambda");
    return worker.work(y);
  };
  const int sum = inline_function(x) + template_function(x) +
                  static_cast<int>(template_function(2.0)) + lambda(x);
  FASTPROF_FLOW_END(7);
  return sum;
}

int library_session() {
  fastprof::Session session;
  session.start();
  const int sum = library_entry(3);
  session.stop();
  return sum + static_cast<int>(session.summary().size());
}
