"""Kills a real `mooring apiserver` under load again and again, and judges what is left:
`python -m tests.kill_apiserver --help`.
"""
