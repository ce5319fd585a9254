"""What to try next, what to accept, when to stop. Knows records, never processes."""
