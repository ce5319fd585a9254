"""The parts of docs/generate.py: what each generated page takes from the code."""
