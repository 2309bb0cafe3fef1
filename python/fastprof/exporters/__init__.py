# SPDX-License-Identifier: Apache-2.0
"""Writers of files. They read tables, trees and lists, and write through atomic_file."""
