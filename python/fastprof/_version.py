# SPDX-License-Identifier: Apache-2.0
"""The version as Python sees it. A test holds it equal to the header csrc/include/fastprof/base/config.hpp."""

__version__ = "0.1.0"
