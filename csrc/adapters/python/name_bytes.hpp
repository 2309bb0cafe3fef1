// SPDX-License-Identifier: Apache-2.0
// The bytes of a Python string, as the recorder stores names.
#pragma once

#include <Python.h>

#include <string>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Returns the UTF-8 of a str in `bytes`. `storage` holds it if it must be changed: lone surrogates
// become three bytes each, NUL becomes U+2400 (names end at the first NUL). Returns false with a
// Python error set if `text` is not a str or memory is exhausted.
bool name_bytes(PyObject* text, std::string& storage, std::string_view& bytes);

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
