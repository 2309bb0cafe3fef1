# SPDX-License-Identifier: Apache-2.0
"""Decode the native module's captures into tables: columns, detail blocks of rows, inputs of ops, device rows."""
