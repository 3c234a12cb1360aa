"""The one source of deploy/monitoring: alerts and dashboards. `make monitoring` writes the files, `make check` compares
them.
"""
