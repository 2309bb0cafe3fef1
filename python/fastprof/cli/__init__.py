# SPDX-License-Identifier: Apache-2.0
"""The fastprof command. Each subcommand is a module with add_parser() and a function that runs it."""
