# SPDX-License-Identifier: Apache-2.0
"""File layouts that a writer and a reader share, defined once so that they cannot differ."""
