# SPDX-License-Identifier: Apache-2.0
"""Basics that every other package may import and that import none: errors, enums, text of times and sizes."""
