# SPDX-License-Identifier: Apache-2.0
"""Exporters: write tables, trees and lists to files, each through atomic_file."""
