# SPDX-License-Identifier: Apache-2.0
"""The fastprof command and the magics of notebooks. Each subcommand is a module with add_parser()."""
