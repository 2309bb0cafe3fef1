# SPDX-License-Identifier: Apache-2.0
"""The HTML report: a table as compressed columns, and the page that shows them (`page/`)."""
