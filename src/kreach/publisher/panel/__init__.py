"""The panel: true reach in a secret sample of groups, and the correction that may cross.

`sample.py` chooses the groups, `differences.py` compares truth and model in them, `release.py` adds
noise and writes down what was released (`ledger.py`), `showings_file.py` reads who saw what.
"""
