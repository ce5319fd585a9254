"""What lives in the training process: it watches, and never raises into the user's program.

Only the standard library and the user's own torch are imported here, so that hotlap may live in
another environment than the one that trains.
"""
