# SPDX-License-Identifier: PostgreSQL
"""What the dashboards are written from: scripts/update-dashboards makes the JSON of it."""
