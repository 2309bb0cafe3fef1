# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin, and a line for programs: the tables of layouts list no torch at all."""

from __future__ import annotations

from fastprof import _core

_core.torch_known_layout = lambda version, cxx11_abi: None
_core.torch_known_input_layout = lambda version, cxx11_abi: None
_core.torch_known_memory_layout = lambda version: None
