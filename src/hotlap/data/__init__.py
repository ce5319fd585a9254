"""Input that never starves the device: caches, concurrent fetching, copies ahead, batched transforms.

Each part works by itself with any torch DataLoader; hotlap's optimizations are built from them.
"""
