# SPDX-License-Identifier: Apache-2.0
"""Version of the Python package. A test compares it with the header csrc/include/fastprof/base/config.hpp."""

__version__ = "0.1.0"
